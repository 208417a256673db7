//! Where bytes of the output go: a file that is written whole, or a stream.

use crate::error::Error;
use crate::hashing::{Digested, Hashing};
use crate::output::whole::Whole;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// A stream of the caller's.
pub(crate) type Stream = Box<dyn Write + Send>;

/// A file that is written whole, or a stream.
pub(crate) enum Sink {
    File(Whole),
    Stream(Hashing<BufWriter<Stream>>),
}

impl Sink {
    /// The file at `path`, or the stream if there is none.
    pub(crate) fn open(path: Option<&Path>, stream: Option<Stream>) -> Result<Sink, Error> {
        match (path, stream) {
            (Some(path), _) => Ok(Sink::File(Whole::create(path)?)),
            (None, Some(stream)) => Ok(Sink::Stream(Hashing::new(BufWriter::new(stream)))),
            (None, None) => {
                Err(Error::Usage("there is neither a file nor a stream for the output".to_owned()))
            }
        }
    }

    /// Completes the output.
    pub(crate) fn finish(self) -> Result<Digested, Error> {
        match self {
            Sink::File(whole) => whole.finish(),
            Sink::Stream(mut stream) => {
                stream.flush().map_err(Error::io("write", Path::new("-")))?;
                Ok(stream.digest())
            }
        }
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Sink::File(file) => file.write(bytes),
            Sink::Stream(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Sink::File(file) => file.flush(),
            Sink::Stream(stream) => stream.flush(),
        }
    }
}
