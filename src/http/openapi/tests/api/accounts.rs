//! Logging in, accounts, keys, invites.

use crate::http::api::auth::profile::{self, ProfileRequest};
use crate::http::api::auth::register::RegisterRequest;
use crate::http::api::auth::session::{self, LoginRequest, LogoutRequest};
use crate::http::api::auth::token;
use crate::http::api::envelope::PageResponse;
use crate::http::api::envelope::{DataResponse, DoneResponse};
use crate::http::api::invites::{self, InviteRequest};
use crate::http::api::tokens::{TokenRequest, TokenResponse};
use crate::http::api::users::{NewUserRequest, UserChangeRequest, UserResponse};
use crate::http::dependencies::AppDependencies;
use crate::http::openapi::tests::Drawing;
use crate::http::openapi::tests::bodies::body;
use crate::http::openapi::tests::operation::{Operation, json_of, named};
use crate::http::openapi::tests::v1::limit;
use crate::http::setup_invite::SetupInviteResponse;
use serde_json::{Value, json};

pub(super) fn draw(drawing: &mut Drawing, app: &AppDependencies) {
    bodies(drawing);
    sessions(drawing);
    profiles(drawing);
    accounts(drawing, app);
    keys(drawing);
}

fn username() -> Value {
    json!({"type": "string", "pattern": "^[\\p{L}\\p{N}._@+-]{2,50}$"})
}

fn email() -> Value {
    json!({"type": "string", "maxLength": 120, "pattern": "^[^\\s\\x00-\\x1f\\x7f-\\x9f]+@[^@\\s\\x00-\\x1f\\x7f-\\x9f]+$"})
}

fn bodies(drawing: &mut Drawing) {
    let credentials = ["username", "password"];
    drawing.component("Login", body::<LoginRequest>(&[], &credentials));
    drawing.component("Logout", body::<LogoutRequest>(&[], &[]));
    let special = [("username", username()), ("email", email())];
    drawing.component("Registration", body::<RegisterRequest>(&special, &credentials));
    drawing.component("NewUser", body::<NewUserRequest>(&special, &[]));
    drawing.component("ProfileChange", profile_change());
    drawing.component("UserChange", body::<UserChangeRequest>(&[], &[]));
    let scopes = json!({"type": "array", "minItems": 1, "items": {"enum": ["read", "write", "admin"]}});
    drawing.component("NewToken", body::<TokenRequest>(&[("scopes", scopes)], &[]));
    drawing.component("NewInvite", body::<InviteRequest>(&[], &[]));
}

/// A new password needs the current one, which a schema says with two forms.
fn profile_change() -> Value {
    let mut form = body::<ProfileRequest>(&[("email", email())], &[]);
    let with_password = body::<ProfileRequest>(&[("email", email())], &["password", "current_password"]);
    form["properties"]["password"] = json!({"type": "null"});
    json!({"oneOf": [form, with_password]})
}

fn sessions(drawing: &mut Drawing) {
    let mode =
        Operation::new("GET", "/api/auth/mode", "Whether there are accounts, and a session").optional();
    let mode = mode.answers::<DataResponse<session::AuthModeResponse>>(drawing, 200, "single or multi");
    drawing.add(mode);
    for (path, summary, sent) in [
        ("/api/auth/login", "Opens a session", "Login"),
        ("/api/auth/register", "Makes an account, and opens its first session", "Registration"),
    ] {
        let open = Operation::new("POST", path, summary).public().takes(json_of(named(sent)));
        let open = open.answers::<DataResponse<token::SessionResponse>>(
            drawing,
            200,
            "The session, as a cookie as well",
        );
        drawing.add(open);
    }
    let logout =
        Operation::new("POST", "/api/auth/logout", "Takes the cookie away, or ends all sessions").optional();
    let logout = logout.may_take(json_of(named("Logout")));
    let logout = logout.answers::<DoneResponse>(drawing, 200, "Logged out");
    drawing.add(logout);
    let ticket =
        Operation::new("POST", "/api/auth/ticket", "What opens streams for a browser, half a minute");
    let ticket = ticket.answers::<DataResponse<session::TicketResponse>>(drawing, 200, "The ticket");
    drawing.add(ticket);
}

fn profiles(drawing: &mut Drawing) {
    let show = Operation::new("GET", "/api/auth/profile", "Your account and its quotas");
    let show =
        show.query("include", json!({"const": "used", "description": "Adds what you use of the quotas"}));
    let show = show.answers::<DataResponse<profile::ProfileResponse>>(drawing, 200, "As it stands");
    drawing.add(show);
    let change = Operation::new("PATCH", "/api/auth/profile", "Changes your account");
    let change = change.may_take(json_of(named("ProfileChange")));
    let change = change.answers::<DataResponse<profile::ProfileResponse>>(drawing, 200, "As it stands now");
    drawing.add(change);
}

fn accounts(drawing: &mut Drawing, app: &AppDependencies) {
    let number = json!({"type": "integer", "minimum": 0, "maximum": u32::MAX});
    let list = Operation::new("GET", "/api/users", "Accounts, by number (administrators)")
        .query("cursor", number)
        .query("limit", limit(app))
        .query("username", json!({"type": "string"}))
        .answers::<DataResponse<PageResponse<UserResponse>>>(drawing, 200, "A page");
    drawing.add(list);
    let create = Operation::new("POST", "/api/users", "Makes an account (administrators)");
    let create = create.takes(json_of(named("NewUser")));
    let create = create.answers::<DataResponse<UserResponse>>(drawing, 200, "The account");
    drawing.add(create);
    let change = Operation::new("PATCH", "/api/users/{id}", "Changes an account (administrators)");
    let change = change.may_take(json_of(named("UserChange")));
    let change = change.answers::<DataResponse<UserResponse>>(drawing, 200, "As it stands now");
    drawing.add(change);
    invites(drawing, app);
}

fn invites(drawing: &mut Drawing, app: &AppDependencies) {
    let cursor = json!({"type": "string", "pattern": "^inv_[0-7][0-9A-HJKMNP-TV-Z]{25}$"});
    let list = Operation::new("GET", "/api/invites", "Invites that can still be used (administrators)")
        .query("cursor", cursor)
        .query("limit", limit(app))
        .answers::<DataResponse<PageResponse<invites::PendingInviteResponse>>>(drawing, 200, "A page");
    drawing.add(list);
    let revoke = Operation::new("DELETE", "/api/invites/{id}", "Revokes an invite (administrators)");
    let revoke = revoke.answers::<DoneResponse>(drawing, 200, "Its code is refused from now on");
    drawing.add(revoke);
    let invite = Operation::new("POST", "/api/invites", "Makes an invite (administrators)");
    let invite = invite.may_take(json_of(named("NewInvite")));
    let invite = invite.answers::<DataResponse<invites::InviteResponse>>(
        drawing,
        200,
        "The code, which is shown once",
    );
    drawing.add(invite);
    let setup = Operation::new("POST", "/api/invites/setup", "Replaces the set-up invite (administrators)");
    let setup = setup.answers::<DataResponse<SetupInviteResponse>>(
        drawing,
        200,
        "Makes the first account, for 24 hours; the one before is refused from now on",
    );
    drawing.add(setup);
}

fn keys(drawing: &mut Drawing) {
    for (path, one) in
        [("/api/tokens", "/api/tokens/{id}"), ("/api/users/{id}/tokens", "/api/users/{id}/tokens/{token}")]
    {
        let list = Operation::new("GET", path, "API keys, oldest first");
        let list = list.answers::<DataResponse<Vec<TokenResponse>>>(drawing, 200, "All of them");
        drawing.add(list);
        let create = Operation::new("POST", path, "Makes an API key").may_take(json_of(named("NewToken")));
        let create =
            create.answers::<DataResponse<TokenResponse>>(drawing, 200, "The key, which is shown once");
        drawing.add(create);
        let revoke = Operation::new("DELETE", one, "Revokes an API key");
        let revoke = revoke.answers::<DoneResponse>(drawing, 200, "It is revoked");
        drawing.add(revoke);
    }
}
