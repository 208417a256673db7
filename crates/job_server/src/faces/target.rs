//! Who is told of the end of a job or batch: the field `webhook` of a request.

use wire::Fault;

use super::ask::{Caller, Fields};
use super::fault::{not_found, of_store};
use crate::documents::{self, ENDPOINT};
use crate::shared::Jobs;

/// The field `webhook`, `{"endpoint_id"}` or `{"url"}`, as a job keeps it: the id of an endpoint of the caller's, or a URL to
/// which messages may go.
///
/// # Errors
/// An endpoint that is not there, a URL to which nothing is sent.
pub(crate) async fn of_job(jobs: &Jobs, caller: &Caller, fields: &Fields) -> Result<Option<String>, Fault> {
    let Some(webhook) = fields.object("webhook")? else { return Ok(None) };
    match (webhook.text("endpoint_id")?, webhook.text("url")?) {
        (Some(id), None) => {
            let found = documents::find(jobs, ENDPOINT, &id, Some(&caller.key)).await.map_err(of_store)?;
            if found.is_none() {
                let mut fault = not_found("webhook endpoint", &id);
                fault.param = Some(webhook.path("endpoint_id"));
                return Err(fault);
            }
            Ok(Some(id))
        }
        (None, Some(url)) => {
            let path = webhook.path("url");
            webhooks::target::Target::parse(&url, &jobs.options.webhook_rules)
                .map_err(|why| Fault::field(path.clone(), format!("{path}: {why}")))?;
            Ok(Some(url))
        }
        _ => Err(Fault::field("webhook", "webhook must have either endpoint_id or url")),
    }
}
