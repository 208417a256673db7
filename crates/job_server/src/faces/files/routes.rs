//! Files, without their bytes: looking, listing, deleting.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::request::Parts;
use axum::response::Response;
use job_store::FileFilter;
use jobs::File;
use jobs::objects::{Deleted, List, file_object};
use wire::Fault;
use wire::error::quote;

use crate::faces::ask::{Caller, Params};
use crate::faces::fault::{answer, json, not_found, of_store, of_store_for};
use crate::shared::Jobs;

/// The most files of a page, which is the default too, as OpenAI has it.
const MOST_PAGE: u64 = 10_000;

/// A file that its key's holder sees.
///
/// # Errors
/// A file that is not there, or not visible.
pub(crate) async fn visible(jobs: &Jobs, id: &str, scope: Option<&str>) -> Result<File, Fault> {
    let file = jobs.store.file(id, scope).await.map_err(|error| of_store_for(error, id))?;
    if file.hidden { Err(not_found("file", id)) } else { Ok(file) }
}

/// `GET /v1/files/{id}`.
pub(crate) async fn retrieve(State(jobs): State<Arc<Jobs>>, Path(id): Path<String>, head: Parts) -> Response {
    let caller = Caller::of(&jobs, &head.extensions);
    answer(visible(&jobs, &id, caller.scope()).await.map(|file| json(&file_object(&file))))
}

/// `GET /v1/files`.
pub(crate) async fn list(State(jobs): State<Arc<Jobs>>, head: Parts) -> Response {
    let answered = async {
        let params = Params::of(&head.uri)?;
        let ascending = match params.text("order").as_deref() {
            None | Some("desc") => false,
            Some("asc") => true,
            Some(other) => {
                return Err(Fault::field(
                    "order",
                    format!("order is {}; it must be asc or desc", quote(other)),
                ));
            }
        };
        let limit = params.number("limit", 1..=MOST_PAGE)?.unwrap_or(MOST_PAGE);
        let filter = FileFilter {
            key: Caller::of(&jobs, &head.extensions).filter(),
            purpose: params.word("purpose")?,
            after: params.text("after"),
            ascending,
            limit: usize::try_from(limit).unwrap_or(usize::MAX),
        };
        let page = jobs.store.files(filter).await.map_err(of_store)?;
        let seen = page.rows.iter().filter(|file| !file.hidden).map(file_object).collect();
        Ok(json(&List::new(seen, page.more, |file| file.id)))
    };
    answer(answered.await)
}

/// `DELETE /v1/files/{id}`.
pub(crate) async fn delete(State(jobs): State<Arc<Jobs>>, Path(id): Path<String>, head: Parts) -> Response {
    let answered = async {
        let caller = Caller::of(&jobs, &head.extensions);
        visible(&jobs, &id, caller.scope()).await?;
        let deleted = jobs.store.delete_file(&id, caller.scope(), jobs.now()).await;
        deleted.map_err(|error| of_store_for(error, &id))?;
        Ok(json(&Deleted::new(&id, "file")))
    };
    answer(answered.await)
}
