//! How far a request has been answered: the service that actix-http calls tells this to the stream
//! of the connection.
//!
//! The stream would have to parse the bytes written to it to see where a response ends. The service
//! need not: actix-http drops the body of a response when all of it is in the write buffer, and
//! flushes the stream after that.

use std::cell::Cell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use actix_web::body::{BodySize, BoxBody, MessageBody};
use actix_web::dev::Payload;
use actix_web::web::{self, Bytes};
use actix_web::{HttpRequest, HttpResponse};

/// The stage of the present request, shared by the stream of a connection and its requests.
pub(in crate::http) type ResponseProgress = Rc<Cell<AnswerStage>>;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::http) enum AnswerStage {
    /// Not all of the response is in actix-http's write buffer.
    #[default]
    Unanswered,
    /// All of the response is in the write buffer. `is_last`: the connection ends with this
    /// request, because a body or another protocol follows the request's head.
    Answered { is_last: bool },
}

/// Lets the stream of a connection follow the progress of a request's answer.
pub(in crate::http) struct AnswerFollower {
    progress: ResponseProgress,
    is_last: bool,
}

impl AnswerFollower {
    /// To be called before the request is answered. Drops the request's body, which no answer
    /// needs.
    pub fn new(request: &HttpRequest, payload: web::Payload) -> Self {
        let progress = request.conn_data::<ResponseProgress>();
        Self {
            progress: progress.cloned().unwrap_or_default(),
            is_last: !matches!(payload.into_inner(), Payload::None),
        }
    }

    /// The answer, whose body tells the stream when all of it is in actix-http's write buffer.
    pub fn follow(self, answer: HttpResponse) -> HttpResponse<FollowedBody> {
        answer.map_body(|_, body| FollowedBody {
            body,
            follower: self,
        })
    }
}

/// The body of a response. Its drop tells the stream that all of it is in the write buffer.
pub(in crate::http) struct FollowedBody {
    body: BoxBody,
    follower: AnswerFollower,
}

impl MessageBody for FollowedBody {
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

impl Drop for FollowedBody {
    fn drop(&mut self) {
        let AnswerFollower { progress, is_last } = &self.follower;
        progress.set(AnswerStage::Answered { is_last: *is_last });
    }
}
