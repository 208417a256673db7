//! The first reading of the input: each line becomes a row of the journal, each different request one.

use crate::error::Error;
use crate::fault::Fault;
use crate::hashing::Digested;
use crate::input::row::Reading;
use crate::input::split::Piece;
use crate::journal::rows::{Asked, Entry};
use crate::journal::store::Journal;
use crate::request::Form;
use crate::setup::Setup;
use sha2::{Digest, Sha256};
use std::collections::HashSet;

/// Lines that are entered in one commit.
const LINES: usize = 1_000;
/// Columns whose names are remembered.
const COLUMNS: usize = 1_000;

/// What the input is.
pub(crate) struct Indexed {
    pub(crate) input: Digested,
    /// The names of the columns, in the order in which they were seen.
    pub(crate) columns: Vec<String>,
}

/// Reads the input into the journal. `go_on` is asked now and then, with the bytes read.
pub(crate) fn index(
    setup: &Setup,
    journal: &Journal,
    go_on: &dyn Fn(u64) -> Result<(), Error>,
) -> Result<Indexed, Error> {
    let unreadable = || setup.source.unreadable();
    let mut records = setup.source.records()?;
    let mut columns = Columns::new(setup);
    let mut entries = Vec::new();
    let (mut number, mut read) = (0, 0);
    while let Some(piece) = records.next().map_err(unreadable())? {
        read = piece.offset + piece.length;
        entries.push(entry(setup, number, &piece, &mut columns));
        number += 1;
        if entries.len() >= LINES {
            journal.enter(&entries)?;
            entries.clear();
            go_on(read)?;
        }
    }
    journal.enter(&entries)?;
    go_on(read)?;
    let input = records.into_source().into_inner().digest();
    Ok(Indexed { input, columns: columns.names })
}

fn entry(setup: &Setup, number: u64, piece: &Piece, columns: &mut Columns<'_>) -> Entry {
    let request = asked(setup, piece).inspect(|_| columns.see(piece));
    Entry { number, offset: piece.offset, length: piece.length, at: piece.line, request }
}

fn asked(setup: &Setup, piece: &Piece) -> Result<Asked, Fault> {
    let too_long = || {
        let (bytes, limit) = (piece.length, setup.source.limit);
        Fault::new("line_too_long", format!("the line has {bytes} bytes; a line may have {limit}"))
    };
    let bytes = piece.bytes.as_deref().ok_or_else(too_long)?;
    let request = setup.recipe.request(&setup.reading, piece.line, bytes)?;
    Ok(Asked {
        key: request.key(),
        is_repeatable: request.is_repeatable(),
        custom_id: request.custom_id.map(|id| Sha256::digest(id).into()),
    })
}

/// Collects the names of columns.
struct Columns<'a> {
    setup: &'a Setup,
    names: Vec<String>,
    seen: HashSet<String>,
}

impl Columns<'_> {
    fn new(setup: &Setup) -> Columns<'_> {
        let names = match &setup.reading {
            Reading::Delimited { columns, .. } => columns.clone(),
            Reading::Json => Vec::new(),
        };
        Columns { setup, names, seen: HashSet::new() }
    }

    fn see(&mut self, piece: &Piece) {
        let known = self.setup.reading != Reading::Json || self.setup.recipe.form == Form::OpenAi;
        let Some(bytes) = piece.bytes.as_deref().filter(|_| !known) else { return };
        let Ok(row) = self.setup.reading.row(bytes) else { return };
        for (name, _) in row {
            if self.names.len() < COLUMNS && self.seen.insert(name.clone()) {
                self.names.push(name);
            }
        }
    }
}
