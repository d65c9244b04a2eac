mod sentences;

use super::*;
use proptest::prelude::*;
use serde_json::json;

/// `book(title:string,year:integer?) …`
fn sketch(spec: &Spec) -> String {
    let resources = spec.resources.iter().map(|resource| {
        let fields: Vec<_> = resource
            .fields
            .iter()
            .map(|field| format!("{}:{:?}{}", field.name, field.kind, if field.required { "" } else { "?" }))
            .collect();
        format!("{}({})", resource.name, fields.join(" "))
    });
    resources.collect::<Vec<_>>().join(" ")
}

fn read(text: &str) -> String {
    sketch(&from_text(text))
}

#[test]
fn prose_of_many_shapes_is_understood() {
    for (text, expected) in [
        (
            "Build a REST API for a library: books (title, isbn, year:int) and members with name and email; members borrow books",
            "book(title:String isbn:String year:Integer) member(name:String email:Email) borrow(member_id:Reference book_id:Reference)",
        ),
        (
            "a library: books (title, isbn, year:int) and members with name and email; members borrow books",
            "book(title:String isbn:String year:Integer) member(name:String email:Email) borrow(member_id:Reference book_id:Reference)",
        ),
        (
            "cinema: movies (title, year:int), tickets with seat and price",
            "movie(title:String year:Integer) ticket(seat:String price:Decimal)",
        ),
        (
            "Create a todo API. Todos have a title, a description, a due date and a done flag. Users have name, email.",
            "todo(title:String description:String due_date:Date done:Boolean) user(name:String email:Email)",
        ),
        (
            "API for a shop\n- products: name, price (decimal), stock (integer, optional)\n- orders: date, status, customer_id\n- customers - name, email",
            "product(name:String price:Decimal stock:Integer?) order(date:Date status:String customer_id:Reference) customer(name:String email:Email)",
        ),
        (
            "I need endpoints for managing recipes and ingredients",
            "recipe(name:String) ingredient(name:String)",
        ),
        (
            "A blog with posts, comments and authors. Each post has a title, body and author; each comment belongs to a post.",
            "post(title:String body:String author_id:Reference) comment(post_id:Reference) author(name:String)",
        ),
        (
            "users(id, name), posts(id, title, user_id)",
            "user(name:String) post(title:String user_id:Reference)",
        ),
        (
            "resources:\n  books:\n    title: string\n    year: int\n  authors: [name, born:date]\n",
            "author(name:String born:Date) book(title:String year:Integer)",
        ),
        (
            "Books:\n- title\n- pages: int\n\nAuthors:\n- name",
            "author(name:String) book(title:String pages:Integer)",
        ),
        (
            "A backend for a pet clinic. It should store pets (name, species), owners (name) and visits (date). Owners have many pets. Each visit belongs to a pet.",
            "pet(name:String species:String owner_id:Reference) owner(name:String) visit(date:Date pet_id:Reference)",
        ),
        (
            "Products have name, description and price. Customers have name. Customers place orders; an order contains products and has a status.",
            "product(name:String description:String price:Decimal) customer(name:String) order(status:String customer_id:Reference) order_product(order_id:Reference product_id:Reference)",
        ),
        (
            "CRUD for user with name:string, age:int, is_admin:bool",
            "user(name:String age:Integer is_admin:Boolean)",
        ),
        (
            "songs (title, duration in seconds) and playlists (name, public flag), playlists contain songs, with tests and documentation",
            "song(title:String duration:Integer) playlist(name:String public:Boolean) playlist_song(playlist_id:Reference song_id:Reference)",
        ),
        (
            "rooms (number:int, price per night), bookings (room, check-in date)",
            "room(number:Integer price:Decimal) booking(room_id:Reference check_in_date:Date)",
        ),
        (
            "students enroll in courses; a course has a title and credits:int",
            "student(name:String) course(title:String credits:Integer) enroll(student_id:Reference course_id:Reference)",
        ),
        ("todo list API", "todo(name:String)"),
        (
            "books (\n  title,\n  year: int\n)\nauthors (name)",
            "book(title:String year:Integer) author(name:String)",
        ),
        (
            "Bücher API: 1. Book - title\n2. Author - name, bio?\n",
            "book(title:String) author(name:String bio:String?)",
        ),
    ] {
        assert_eq!(read(text), expected, "{text}");
    }
}

#[test]
fn what_there_is_no_room_for_is_said() {
    let things: String = (0..200).map(|at| format!("thing{at}s (name)\n")).collect();
    let spec = from_text(&things);
    assert_eq!(spec.resources.len(), MAX_RESOURCES);
    assert!(spec.assumptions[0].contains("at most 24 resources; 176 are left out"), "{:?}", spec.assumptions);

    let fields: Vec<String> = (0..40).map(|at| format!("field{at}")).collect();
    let spec = from_text(&format!("lamps ({})", fields.join(", ")));
    assert!(spec.assumptions[0].contains("10 more are left out"), "{:?}", spec.assumptions);
}

#[test]
fn structures_of_many_shapes_are_understood() {
    let expected = "book(title:String year:Integer?)";
    for value in [
        json!({"resources": [{"name": "books", "fields": ["title", "year:int?"]}]}),
        json!({"resources": {"Book": {"title": "string", "year": {"type": "int", "required": false}}}}),
        json!([{"name": "book", "fields": [{"name": "title", "type": "string"}, {"name": "year", "type": "integer", "optional": true}]}]),
        json!({"plan": {"models": [{"book": {"title": "string", "year": "int?"}}]}}),
        json!("books (title, year:int?)"),
        json!({"description": "books (title, year:int?)"}),
        json!({"books": ["title", "year (integer, optional)"]}),
    ] {
        assert_eq!(from_value(&value).map(|spec| sketch(&spec)).as_deref(), Some(expected), "{value}");
    }
}

#[test]
fn a_plan_survives_its_json() {
    let spec = from_text(
        "A library: books (title, due date), members (name); members borrow books. Nothing is ever without delete.",
    );
    let again = from_value(&serde_json::to_value(&spec).unwrap()).unwrap();
    assert_eq!(again, spec);
}

#[test]
fn what_is_no_api_has_no_resources() {
    for text in [
        "",
        "hello",
        "What is the weather like?",
        "Tell me a joke.",
        "please",
        "Build a REST API",
        "42",
        "!!! ???",
    ] {
        assert_eq!(from_text(text).resources, Vec::new(), "{text}");
    }
}

#[test]
fn operations_can_be_left_out() {
    let spec = from_text("A read-only API for books (title)");
    assert_eq!(spec.resources[0].operations, [Operation::List, Operation::Get]);
}

#[test]
fn a_text_of_nothing_but_brackets_is_read() {
    let spec = from_text(&"b()".repeat(21_845));
    assert!(spec.resources.len() <= MAX_RESOURCES);
}

#[test]
fn no_more_is_said_than_anybody_reads() {
    let said: String = (0..3_000).map(|n| format!(" The book must q{n} w{n}.")).collect();
    let spec = from_text(&format!("Books have a title.{said}"));
    assert_eq!(spec.assumptions.len(), MAX_ASSUMPTIONS + 1);
    assert!(spec.assumptions[MAX_ASSUMPTIONS].contains("make the text shorter"));
}

proptest! {
    #[test]
    fn every_phrase_of_a_list_is_in_the_plan_or_named(phrases in proptest::collection::vec(
        prop_oneof!["[a-z]{3,8}", "(is|are|was) [a-z]{3,8}(ed)? (by|in|at) (a |the )?[a-z]{3,8}", "[a-z]{3,8}s (to|at|in) (a )?(book|[a-z]{3,8})",
            "(belongs|refers) to (a |the |some )?(book|[a-z]{3,8}s?)", "[a-z]{3,8}( [a-z]{3,8}){4,6}", "😀+"], 1..6)) {
        let spec = from_text(&format!("books (title), keepers (name, {})", phrases.join(", ")));
        let keeper = spec.resources.iter().find(|resource| resource.name == "keeper").unwrap();
        let known: Vec<_> = keeper.fields.iter().map(|field| field.name.trim_end_matches("_id")).collect();
        for phrase in &phrases {
            let is_told = spec.assumptions.iter().any(|noted| noted.contains(&words::shortened(phrase, 80)));
            let is_kept = words::words(phrase).iter().any(|word| known.iter().any(|name| name.contains(&words::singular(word))))
                || spec.relations.iter().any(|relation| phrase.contains(relation.to.as_str()));
            prop_assert!(is_told || is_kept || words::words(phrase).iter().all(|word| words::is_stop(word)), "{phrase}: {}", sketch(&spec));
        }
    }

    #[test]
    fn any_text_is_read_within_bounds(text in "\\PC{0,300}") {
        let spec = from_text(&text);
        prop_assert!(spec.resources.len() <= MAX_RESOURCES);
        prop_assert!(spec.resources.iter().all(|resource| resource.fields.len() <= MAX_FIELDS));
    }

    #[test]
    fn anything_like_a_request_is_read(words in proptest::collection::vec(
        prop_oneof!["[a-z]{1,8}s?", Just("with".into()), Just("and".into()), Just("(".into()), Just(")".into()), Just(":".into()),
            Just(",".into()), Just(".\n".into()), Just("- ".into()), Just("belongs to".into()), Just("has".into()), Just("ä€".into())], 0..60)) {
        let _ = from_text(&words.join(" "));
    }
}
