//! To be written.

use super::wire::{self, Adaptation, Changes, Ending, Request, Rest, SlotText, Wire};
use super::{Delta, Kind};

/// To be written.
#[derive(Debug)]
pub(crate) struct Responses;

impl Wire for Responses {
    fn takes_path(&self, _path: &str) -> bool {
        false
    }

    fn recognizes(&self, _event_type: &str, _data: &str) -> Option<bool> {
        Some(false)
    }

    fn reader(&self) -> Box<dyn wire::Reader> {
        Box::new(Reader)
    }

    fn writer(&self) -> Box<dyn wire::Writer> {
        super::chat::Chat.writer()
    }

    fn read_body(&self, _body: &str, _on: &mut dyn FnMut(Delta<'_>)) -> bool {
        false
    }

    fn write_body(&self, _first_body: &str, _texts: &[SlotText<'_>], _ending: &Ending<'_>) -> Option<String> {
        None
    }

    fn parse(&self, _path: &str, _body: &[u8]) -> Option<Request> {
        None
    }

    fn ask(&self, _body: &str, _rest: Option<&Rest<'_>>, _changes: &Changes<'_>) -> Option<String> {
        None
    }

    fn adapt(&self, _body: &str, _adaptation: &Adaptation<'_>) -> Option<String> {
        None
    }
}

#[derive(Debug)]
struct Reader;

impl wire::Reader for Reader {
    fn read(&mut self, _event_type: &str, _data: &str, _on: &mut dyn FnMut(Delta<'_>)) -> Kind {
        Kind::Other
    }
}
