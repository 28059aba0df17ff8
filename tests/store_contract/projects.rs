//! Projects: rows, their order, and who has which directory.

use super::fixture::Rig;
use crate::support::store::{ANN, BOB};
use nanoclaw::domain::id::{ProjectId, UserId};
use nanoclaw::domain::project::{Project, ProjectName};
use nanoclaw::ports::{Clock, ProjectCursor, Projects, StoreError};

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

/// Founds one at the rig's time.
pub(crate) fn found(rig: &Rig, number: u128, user: UserId, called: &str) -> Result<Project, StoreError> {
    rig.store.create_project(project(number, user, called, rig.clock.now_ms()), MOST).wait()
}

fn names(rig: &Rig, user: UserId) -> Vec<String> {
    let all = rig.store.all_projects(user).expect("projects");
    all.into_iter().map(|project| project.name.into()).collect()
}

#[test]
fn a_project_survives_a_crash_as_it_was_founded() {
    let rig = Rig::new();
    let founded = found(&rig, 1, ANN, "app").expect("founded");
    let after = rig.crash();
    assert_eq!(after.store.project(ANN, pid(1)), Ok(Some(founded)));
    assert_eq!(after.store.pending_removals(), Ok(vec![]));
}

#[test]
fn p7_projects_are_their_users_alone() {
    let rig = Rig::new();
    found(&rig, 1, ANN, "app").expect("founded");
    found(&rig, 2, BOB, "app").expect("names are per user");
    assert_eq!(rig.store.project(BOB, pid(1)), Ok(None));
    assert_eq!(rig.store.update_project(BOB, pid(1), Some(name("mine")), None).wait(), Ok(None));
    assert_eq!(rig.store.remove_project(BOB, pid(1)).wait(), Ok(None));
    let page = rig.store.projects(BOB, None, 10).expect("a page");
    assert_eq!((page.projects.len(), page.total), (1, 1));
    assert_eq!(rig.store.project(ANN, pid(1)).expect("read").map(|p| p.name), Some(name("app")));
}

#[test]
fn names_are_unique_by_case_and_free_again_once_given_up() {
    let rig = Rig::new();
    found(&rig, 1, ANN, "app").expect("founded");
    assert_eq!(found(&rig, 2, ANN, "app"), Err(StoreError::NameTaken));
    found(&rig, 2, ANN, "App").expect("another name");
    let amend = |id, to| rig.store.update_project(ANN, pid(id), Some(name(to)), None).wait();
    assert_eq!(amend(2, "app"), Err(StoreError::NameTaken));
    assert_eq!(amend(2, "App").expect("its own name").expect("a project").name, name("App"));
    assert_eq!(amend(1, "other").expect("amended").expect("a project").directory, "app", "which stays");
    assert_eq!(amend(2, "app").expect("free").expect("a project").directory, "App");
}

#[test]
fn directories_are_nobody_elses_until_they_are_swept() {
    let rig = Rig::new();
    let first = found(&rig, 1, ANN, "app").expect("founded");
    let removed = rig.store.remove_project(ANN, pid(1)).wait().expect("removed").expect("a project");
    assert_eq!(removed, first);
    assert_eq!(rig.store.project(ANN, pid(1)), Ok(None));
    let second = found(&rig, 2, ANN, "app").expect("the name is free");
    assert_eq!(second.directory, "app_1", "the directory is not");
    assert_eq!(found(&rig, 3, BOB, "app").expect("founded").directory, "app", "others have their own");
    let rig = rig.crash();
    assert_eq!(rig.store.pending_removals(), Ok(vec![removed.clone()]), "a crash forgets nothing");
    rig.store.mark_removed(removed).wait().expect("swept");
    assert_eq!(rig.store.pending_removals(), Ok(vec![]));
    rig.store.remove_project(ANN, pid(2)).wait().expect("removed");
    assert_eq!(found(&rig, 4, ANN, "app").expect("founded").directory, "app");
}

#[test]
fn a_project_in_the_making_is_unseen_and_unswept_until_it_is_founded() {
    let rig = Rig::new();
    found(&rig, 1, ANN, "app").expect("founded");
    let draft = project(2, ANN, "app", rig.clock.now_ms());
    let reserved = rig.store.reserve_project(draft, MOST).wait().expect("reserved");
    assert_eq!(reserved.directory, "app_1");
    assert_eq!((rig.store.project(ANN, pid(2)), names(&rig, ANN)), (Ok(None), vec!["app".to_owned()]));
    assert_eq!(
        rig.crash().store.pending_removals(),
        Ok(vec![reserved.clone()]),
        "what a crash leaves is told"
    );
    let third = rig.store.reserve_project(project(3, ANN, "app", 0), MOST).wait().expect("reserved");
    assert_eq!(third.directory, "app_2");
    rig.store.mark_removed(third).wait().expect("given up");
    let founded = Project { name: name("later"), ..reserved };
    // Whoever founds it may have forgotten what its directory was called.
    let founded = rig.store.create_project(Project { directory: "x".into(), ..founded }, MOST).wait();
    assert_eq!(founded.expect("founded").directory, "app_1");
    assert_eq!(rig.store.pending_removals(), Ok(vec![]));
}

#[test]
fn p8_a_user_has_so_many_projects_and_no_more() {
    let rig = Rig::new();
    for number in 0..u128::from(MOST) {
        found(&rig, number, ANN, &format!("p{number}")).expect("founded");
    }
    let full = Err(StoreError::ProjectsFull { limit: MOST });
    assert_eq!(found(&rig, 9, ANN, "one more"), full);
    assert_eq!(rig.store.reserve_project(project(9, ANN, "one more", 0), MOST).wait(), full);
    found(&rig, 9, BOB, "his").expect("another user's");
}

#[test]
fn pages_show_what_changed_last_first_and_each_once() {
    let rig = Rig::new();
    for (number, called) in ["a", "b", "c", "d"].into_iter().enumerate() {
        found(&rig, number as u128, ANN, called).expect("founded");
        rig.clock.advance(10);
    }
    let amended = rig.store.update_project(ANN, pid(1), None, Some("new".to_owned())).wait();
    let amended = amended.expect("amended").expect("a project");
    assert_eq!((amended.updated_at_ms, amended.description.as_str()), (rig.clock.now_ms(), "new"));
    assert_eq!(names(&rig, ANN), ["b", "d", "c", "a"]);
    let (mut before, mut seen) = (None, Vec::new());
    loop {
        let page = rig.store.projects(ANN, before, 2).expect("a page");
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
