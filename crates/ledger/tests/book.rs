//! The book against a naive model, with exchanges that fail, come late or lose their answer.
