//! Takes the ticket out of a query, so that no handler sees it.

/// The parameter's name.
const NAME: &str = "ticket=";

/// The ticket and the query without it. A second ticket stays in the query, where the handler refuses it.
pub(crate) fn split_query(query: Option<&str>) -> (Option<String>, Option<String>) {
    let Some(query) = query else { return (None, None) };
    let mut ticket = None;
    let mut rest = Vec::new();
    for part in query.split('&') {
        match part.strip_prefix(NAME) {
            Some(value) if ticket.is_none() => ticket = Some(value.to_owned()),
            _ => rest.push(part),
        }
    }
    (ticket, Some(rest.join("&")).filter(|rest| !rest.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_ticket_is_removed_from_the_query() {
        let taken = |query| {
            let (ticket, rest) = split_query(Some(query));
            (ticket.unwrap_or_default(), rest.unwrap_or_default())
        };
        assert_eq!(taken("ticket=a.b.c"), ("a.b.c".into(), String::new()));
        assert_eq!(taken("format=delta&ticket=x&a=b"), ("x".into(), "format=delta&a=b".into()));
        assert_eq!(taken("ticket=x&ticket=y"), ("x".into(), "ticket=y".into()));
        assert_eq!(taken("tickets=1&ticket"), (String::new(), "tickets=1&ticket".into()));
        assert_eq!(split_query(None), (None, None));
    }
}
