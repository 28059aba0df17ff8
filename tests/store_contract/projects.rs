//! Project rows: names, directories, order and limits.

use super::fixture::Fixture;
use crate::support::store::{ANN, BOB};
use nanoclaw::domain::id::{ProjectId, UserId};
use nanoclaw::domain::project::{Project, ProjectName};
use nanoclaw::ports::{Clock, ProjectCursor, ProjectError};

const MOST: u64 = 5;

pub(crate) fn pid(number: u128) -> ProjectId {
    ProjectId::from_bits(number)
}

fn name(text: &str) -> ProjectName {
    ProjectName::try_from(text.to_owned()).expect("a name")
}

fn project(number: u128, user: UserId, called: &str, at_ms: u64) -> Project {
    Project {
        id: pid(number),
        user,
        name: name(called),
        directory: called.to_owned(),
        description: String::new(),
        created_at_ms: at_ms,
        updated_at_ms: at_ms,
    }
}

/// Creates a project at the fixture's time.
pub(crate) fn found(
    fixture: &Fixture,
    number: u128,
    user: UserId,
    called: &str,
) -> Result<Project, ProjectError> {
    fixture.store.create_project(project(number, user, called, fixture.clock.now_ms()), MOST).wait()
}

fn names(fixture: &Fixture, user: UserId) -> Vec<String> {
    let all = fixture.store.all_projects(user).expect("projects");
    all.into_iter().map(|project| project.name.into()).collect()
}

#[test]
fn a_project_survives_a_crash_unchanged() {
    let fixture = Fixture::new();
    let founded = found(&fixture, 1, ANN, "app").expect("founded");
    let after = fixture.crash();
    assert_eq!(after.store.project(ANN, pid(1)), Ok(Some(founded)));
    assert_eq!(after.store.pending_removals(), Ok(vec![]));
}

#[test]
fn p7_projects_of_users_are_separate() {
    let fixture = Fixture::new();
    found(&fixture, 1, ANN, "app").expect("founded");
    found(&fixture, 2, BOB, "app").expect("names are per user");
    assert_eq!(fixture.store.project(BOB, pid(1)), Ok(None));
    assert_eq!(fixture.store.update_project(BOB, pid(1), Some(name("mine")), None).wait(), Ok(None));
    assert_eq!(fixture.store.remove_project(BOB, pid(1)).wait(), Ok(None));
    let page = fixture.store.projects(BOB, None, 10).expect("a page");
    assert_eq!((page.projects.len(), page.total), (1, 1));
    assert_eq!(fixture.store.project(ANN, pid(1)).expect("read").map(|p| p.name), Some(name("app")));
}

#[test]
fn project_names_are_unique_case_sensitive_and_reusable() {
    let fixture = Fixture::new();
    found(&fixture, 1, ANN, "app").expect("founded");
    assert_eq!(found(&fixture, 2, ANN, "app"), Err(ProjectError::NameTaken));
    found(&fixture, 2, ANN, "App").expect("another name");
    let amend = |id, to| fixture.store.update_project(ANN, pid(id), Some(name(to)), None).wait();
    assert_eq!(amend(2, "app"), Err(ProjectError::NameTaken));
    assert_eq!(amend(2, "App").expect("its own name").expect("a project").name, name("App"));
    assert_eq!(
        amend(1, "other").expect("amended").expect("a project").directory,
        "app",
        "the directory does not change"
    );
    assert_eq!(amend(2, "app").expect("free").expect("a project").directory, "App");
}

#[test]
fn a_removed_projects_directory_is_not_reused_until_it_is_swept() {
    let fixture = Fixture::new();
    let first = found(&fixture, 1, ANN, "app").expect("founded");
    let removed = fixture.store.remove_project(ANN, pid(1)).wait().expect("removed").expect("a project");
    assert_eq!(removed, first);
    assert_eq!(fixture.store.project(ANN, pid(1)), Ok(None));
    let second = found(&fixture, 2, ANN, "app").expect("the name is free");
    assert_eq!(second.directory, "app_1", "the old directory is not reused yet");
    assert_eq!(
        found(&fixture, 3, BOB, "app").expect("founded").directory,
        "app",
        "other users have their own directories"
    );
    let fixture = fixture.crash();
    assert_eq!(
        fixture.store.pending_removals(),
        Ok(vec![removed.clone()]),
        "pending removals survive a crash"
    );
    fixture.store.mark_removed(removed).wait().expect("swept");
    assert_eq!(fixture.store.pending_removals(), Ok(vec![]));
    fixture.store.remove_project(ANN, pid(2)).wait().expect("removed");
    assert_eq!(found(&fixture, 4, ANN, "app").expect("founded").directory, "app");
}

#[test]
fn a_reserved_project_is_invisible_and_keeps_its_directory_until_created() {
    let fixture = Fixture::new();
    found(&fixture, 1, ANN, "app").expect("founded");
    let draft = project(2, ANN, "app", fixture.clock.now_ms());
    let reserved = fixture.store.reserve_project(draft, MOST).wait().expect("reserved");
    assert_eq!(reserved.directory, "app_1");
    assert_eq!(
        (fixture.store.project(ANN, pid(2)), names(&fixture, ANN)),
        (Ok(None), vec!["app".to_owned()])
    );
    assert_eq!(
        fixture.crash().store.pending_removals(),
        Ok(vec![reserved.clone()]),
        "a crash makes the reserved directory a pending removal"
    );
    let third = fixture.store.reserve_project(project(3, ANN, "app", 0), MOST).wait().expect("reserved");
    assert_eq!(third.directory, "app_2");
    fixture.store.mark_removed(third).wait().expect("given up");
    let founded = Project { name: name("later"), ..reserved };
    // The caller may pass another directory name; the reserved one counts.
    let founded = fixture.store.create_project(Project { directory: "x".into(), ..founded }, MOST).wait();
    assert_eq!(founded.expect("founded").directory, "app_1");
    assert_eq!(fixture.store.pending_removals(), Ok(vec![]));
}

#[test]
fn p8_projects_are_limited_for_each_user() {
    let fixture = Fixture::new();
    for number in 0..u128::from(MOST) {
        found(&fixture, number, ANN, &format!("p{number}")).expect("founded");
    }
    let full = Err(ProjectError::ProjectsFull { limit: MOST });
    assert_eq!(found(&fixture, 9, ANN, "one more"), full);
    assert_eq!(fixture.store.reserve_project(project(9, ANN, "one more", 0), MOST).wait(), full);
    found(&fixture, 9, BOB, "his").expect("another user's");
}

#[test]
fn projects_are_listed_by_last_change_in_pages_without_repeats() {
    let fixture = Fixture::new();
    for (number, called) in ["a", "b", "c", "d"].into_iter().enumerate() {
        found(&fixture, number as u128, ANN, called).expect("founded");
        fixture.clock.advance(10);
    }
    let amended = fixture.store.update_project(ANN, pid(1), None, Some("new".to_owned())).wait();
    let amended = amended.expect("amended").expect("a project");
    assert_eq!((amended.updated_at_ms, amended.description.as_str()), (fixture.clock.now_ms(), "new"));
    assert_eq!(names(&fixture, ANN), ["b", "d", "c", "a"]);
    let (mut before, mut seen) = (None, Vec::new());
    loop {
        let page = fixture.store.projects(ANN, before, 2).expect("a page");
        assert_eq!(page.total, 4);
        let last = page.projects.last().expect("a project");
        before = Some(ProjectCursor { updated_at_ms: last.updated_at_ms, id: last.id });
        seen.extend(page.projects.iter().map(|project| String::from(project.name.clone())));
        if !page.has_more {
            break;
        }
    }
    assert_eq!(seen, ["b", "d", "c", "a"]);
}
