//! The progress of a request, which the stream of a connection and the service that actix-http
//! calls tell each other.
//!
//! The stream cannot see in the bytes written to it where a response ends without parsing it. The
//! service can: actix-http drops the body of a response when all of it is in the write buffer, and
//! flushes the stream after that.

use std::cell::Cell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use actix_web::body::{BodySize, BoxBody, MessageBody};
use actix_web::dev::Payload;
use actix_web::web::{self, Bytes};
use actix_web::{HttpRequest, HttpResponse};

/// Shared by the stream and the requests of one connection.
#[derive(Debug, Clone, Default)]
pub(in crate::http) struct ResponseProgress(Rc<Cell<AnswerStage>>);

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum AnswerStage {
    /// The service has not been called.
    #[default]
    Unanswered,
    Answering,
    /// The whole response is in actix-http's write buffer. The request is the last one on its
    /// connection if a body or another protocol follows its head.
    Answered {
        is_last: bool,
    },
}

impl ResponseProgress {
    pub(super) fn stage(&self) -> AnswerStage {
        self.0.get()
    }

    pub(super) fn set(&self, stage: AnswerStage) {
        self.0.set(stage);
    }
}

/// Lets the stream of a request's connection follow the progress of the answer, which is passed to
/// the returned function.
pub(in crate::http) fn followed(
    request: &HttpRequest,
    payload: web::Payload,
) -> impl FnOnce(HttpResponse) -> HttpResponse<Followed> + use<> {
    let progress = request
        .conn_data::<ResponseProgress>()
        .cloned()
        .unwrap_or_default();
    progress.set(AnswerStage::Answering);
    let is_last = !matches!(payload.into_inner(), Payload::None);
    move |answer| {
        answer.map_body(|_, body| Followed {
            body,
            progress,
            is_last,
        })
    }
}

/// The body of a response, whose end the stream must know.
pub(in crate::http) struct Followed {
    body: BoxBody,
    progress: ResponseProgress,
    is_last: bool,
}

impl MessageBody for Followed {
    type Error = <BoxBody as MessageBody>::Error;

    fn size(&self) -> BodySize {
        self.body.size()
    }

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, Self::Error>>> {
        Pin::new(&mut self.body).poll_next(context)
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        self.progress.set(AnswerStage::Answered {
            is_last: self.is_last,
        });
    }
}
