//! `GET /api/stats/tokens`: tokens by hour or day of a time zone, and by model, for at most 30 days
//! (`/v1/usage` has more).

pub(crate) mod report;

use crate::domain::account::Role;
use crate::domain::id::UserId;
use crate::domain::timing;
use crate::http::api::envelope;
use crate::http::auth::Caller;
use crate::http::context::ServerContext;
use crate::http::error::ApiError;
use crate::http::request::context::RequestContext;
use crate::http::request::query::digits;
use crate::http::request::quoted::quoted;
use crate::http::response::HandlerResult;
use jiff::tz::TimeZone;
use report::{ReportPeriod, ReportSpan};
use std::sync::Arc;

/// The longest name of a zone that is looked up, bytes.
const ZONE_BYTES: usize = 64;
const USER: &str = "user_id";

/// The usage of the caller; administrators may ask for another user or for all.
pub(crate) async fn tokens(context: &Arc<ServerContext>, request: &RequestContext) -> HandlerResult {
    let query = &request.query;
    let period = period(query.text("period"))?;
    let zone = zone(query.text("tz"))?;
    let user = whose(query.text(USER), request.caller)?;
    let span = ReportSpan::until(period, zone, context.app.clock.now_ms()).ok_or(ApiError::Internal)?;
    let (accounts, (from, to)) = (Arc::clone(&context.app.accounts), span.hours());
    let lines = context.read(request.user, move |_| accounts.usage_by_hour(user, from, to)).await?;
    Ok(envelope::data(span.report(lines)))
}

fn period(text: Option<&str>) -> Result<ReportPeriod, ApiError> {
    match text {
        None | Some("daily") => Ok(ReportPeriod::Daily),
        Some("weekly") => Ok(ReportPeriod::Weekly),
        Some("monthly") => Ok(ReportPeriod::Monthly),
        Some(_) => {
            Err(ApiError::value("period", "invalid period: 'period' must be daily, weekly or monthly"))
        }
    }
}

fn zone(name: Option<&str>) -> Result<TimeZone, ApiError> {
    let Some(name) = name else { return Ok(TimeZone::UTC) };
    let found = Some(name).filter(|name| name.len() <= ZONE_BYTES).and_then(timing::zone);
    found.filter(|zone| zone.iana_name().is_some()).ok_or_else(|| {
        let wanted = "names are those of the IANA database, as in Europe/Berlin";
        ApiError::value("tz", format!("'tz': there is no time zone {} ({wanted})", quoted(name)))
    })
}

/// `None`: all users. Without permission the answer is the same whether or not the other user exists (P7).
fn whose(text: Option<&str>, caller: Caller) -> Result<Option<UserId>, ApiError> {
    let Some(text) = text else { return Ok(Some(caller.user)) };
    let asked = match text {
        "all" => None,
        number => {
            let number = digits(number).and_then(|number| u32::try_from(number).ok());
            Some(number.map(UserId).ok_or_else(|| {
                ApiError::value(
                    USER,
                    format!("'{USER}' must be a user's number or all, not {}", quoted(text)),
                )
            })?)
        }
    };
    let is_admin = caller.role == Role::Admin && caller.scopes.admin;
    if is_admin || asked == Some(caller.user) {
        return Ok(asked);
    }
    Err(ApiError::Forbidden("only an administrator may see what others have spent"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::account::TokenScopes;

    #[test]
    fn p7_only_administrators_see_usage_of_others() {
        let caller =
            |role, admin| Caller::known(UserId(7), role, TokenScopes { read: true, write: true, admin });
        let asked = |text, role, admin| whose(text, caller(role, admin)).map_err(|error| error.to_string());
        let refused = Err("only an administrator may see what others have spent".to_owned());
        for (role, admin) in [(Role::User, true), (Role::Admin, false)] {
            assert_eq!(asked(None, role, admin), Ok(Some(UserId(7))));
            assert_eq!(asked(Some("7"), role, admin), Ok(Some(UserId(7))));
            for other in ["1", "8", "4294967295", "all"] {
                assert_eq!(asked(Some(other), role, admin), refused, "{other}");
            }
        }
        assert_eq!(asked(Some("8"), Role::Admin, true), Ok(Some(UserId(8))));
        assert_eq!(asked(Some("all"), Role::Admin, true), Ok(None));
        for bad in ["", "-1", "1.5", "4294967296", "everybody"] {
            assert!(
                asked(Some(bad), Role::Admin, true).is_err_and(|error| error.contains("'user_id'")),
                "{bad}"
            );
        }
    }

    #[test]
    fn invalid_zones_and_periods_are_reported() {
        for good in ["UTC", "Europe/Berlin", "Asia/Kolkata"] {
            assert!(zone(Some(good)).is_ok(), "{good}");
        }
        for bad in ["", "Mars/Olympus", "+02:00", "CET-1CEST", "../../etc/passwd", &"x".repeat(100)] {
            let error = zone(Some(bad)).expect_err(bad).to_string();
            assert!(error.contains("'tz'") && error.contains("there is no time zone"), "{error}");
        }
        assert!(period(Some("yearly")).is_err_and(|error| error.to_string().starts_with("invalid period")));
    }
}
