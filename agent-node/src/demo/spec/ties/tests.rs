use super::*;
use proptest::prelude::*;

fn sketch(phrase: &str) -> String {
    tie(phrase, false).map_or("-".to_owned(), |tie| {
        let (many, optional) = (if tie.many { "*" } else { "" }, if tie.required { "" } else { "?" });
        format!("{:?} {} > {}{many}{optional}", tie.sort, tie.verb, tie.target.join(" "))
    })
}

#[test]
fn phrases_about_others_are_told_from_fields() {
    for (phrase, expected) in [
        ("belongs to a lighthouse", "Owner belongs to > lighthouse"),
        ("may belong to one light house", "Owner belong to > light house?"),
        ("is owned by the company", "Owner owned by > company"),
        ("belongs to many fleets", "Owner belongs to > fleets*"),
        ("refers to its manual", "Other refers to > manual"),
        ("a reference to a manual", "Other reference to > manual"),
        ("is part of a fleet", "Other part of > fleet"),
        ("is a member of a club", "Other member of > club"),
        ("references a manual", "Other references > manual"),
        ("is stored in a warehouse", "Place stored in > warehouse"),
        ("written by an author", "Place written by > author"),
        ("is in a room", "Place is in > room"),
        ("works at a lighthouse", "Place works at > lighthouse"),
        ("live in a tower", "Place live in > tower"),
        ("borrows books", "Act borrows > books*"),
        ("owns a boat", "Act owns > boat"),
        ("can have many lamps", "Several has > lamps*?"),
        ("a list of tags", "Several has > tags*"),
        ("has many lamps", "Several has > lamps*"),
        ("a name", "-"),
        ("references", "-"),
        ("date of birth", "-"),
        ("price per night", "-"),
        ("distance to the harbour", "-"),
        ("notes for the driver", "-"),
        ("is active", "-"),
        ("is_admin:bool", "-"),
        ("created at", "-"),
        ("opening hours", "-"),
        ("species name", "-"),
        ("takes place in a room", "Place takes place in > room"),
        ("sales tax in total", "-"),
        ("treat many patients", "Act treat > patients*"),
        ("address line one", "-"),
        ("post id", "-"),
        ("play count", "-"),
        ("belongs to", "-"),
        ("", "-"),
    ] {
        assert_eq!(sketch(phrase), expected, "{phrase:?}");
    }
}

proptest! {
    #[test]
    fn any_phrase_is_looked_at(phrase in "\\PC{0,60}", follows in any::<bool>()) {
        if let Some(tie) = tie(&phrase, follows) {
            prop_assert!(!tie.target.is_empty() && !tie.verb.is_empty());
        }
    }
}
