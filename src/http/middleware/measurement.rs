//! Metrics of the server: method labels, and values that rise and fall with a connection or a stream.

use crate::ports::{Measurement, Meter};
use hyper::Method;
use std::sync::Arc;

/// Records a begin now and its end when dropped.
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

/// The label of unknown methods and of methods that the route lacks.
pub(crate) const OTHER: &str = "other";

/// The label of a method. Unknown methods share one label, so that clients cannot add labels.
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
