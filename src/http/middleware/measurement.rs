//! What the door tells the meter. Owns the words of methods, and the guards that see both ends of what lasts.

use crate::ports::{Measurement, Meter};
use hyper::Method;
use std::sync::Arc;

/// Something that has begun; its end is told when this is dropped, however that comes about.
pub(crate) struct MeasuredLifetime {
    meter: Arc<dyn Meter>,
    end: Measurement<'static>,
}

impl MeasuredLifetime {
    /// A connection.
    pub(crate) fn connection(meter: &Arc<dyn Meter>) -> Self {
        Self::begin(meter, Measurement::ConnectionOpened, Measurement::ConnectionClosed)
    }

    /// An event stream.
    pub(crate) fn stream(meter: &Arc<dyn Meter>) -> Self {
        Self::begin(meter, Measurement::StreamOpened, Measurement::StreamClosed)
    }

    fn begin(meter: &Arc<dyn Meter>, begin: Measurement<'static>, end: Measurement<'static>) -> Self {
        meter.record(begin);
        Self { meter: Arc::clone(meter), end }
    }
}

impl Drop for MeasuredLifetime {
    fn drop(&mut self) {
        self.meter.record(self.end);
    }
}

/// What stands for a method that clients made up, or that a route does not have.
pub(crate) const OTHER: &str = "other";

/// A method that some route has, by its name; clients make up others.
pub(crate) fn method_label(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        _ => OTHER,
    }
}
