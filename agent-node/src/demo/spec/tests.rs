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
fn what_stands_to_another_thing_is_a_reference_however_it_is_said() {
    let lighthouses = "Lighthouses have a name and a height";
    let expected = "lighthouse(name:String height:Decimal) keeper(name:String lighthouse_id:Reference)";
    for said in [
        "A keeper has a name and belongs to a lighthouse",
        "Keepers have a name and belong to a lighthouse",
        "Keepers have a name, belong to one lighthouse",
        "Each keeper has a name and is owned by the lighthouse",
        "A keeper has a name and refers to a lighthouse",
        "A keeper has a name and references its lighthouse",
        "A keeper has a name and is assigned to exactly one lighthouse",
        "A keeper has a name and is part of a lighthouse",
        "A keeper has a name and works at a lighthouse",
        "Keepers have a name and are stationed at a lighthouse",
        "A keeper has a name and a reference to a lighthouse",
        "A keeper has a name and a lighthouse",
        "A keeper has a name and has a lighthouse",
        "keepers (name, belongs to lighthouse)",
        "keepers: name, belongs to a lighthouse",
        "keepers with name. Each keeper belongs to a lighthouse",
        "keepers with name. Keepers work at a lighthouse",
        "keepers with name. Every keeper is assigned to a lighthouse",
        "keepers with name. A lighthouse has several keepers",
        "keepers with name. A lighthouse has a list of keepers",
    ] {
        assert_eq!(read(&format!("{lighthouses}. {said}.")), expected, "{said}");
    }
    let optional = "keeper(name:String lighthouse_id:Reference?)";
    for said in ["may belong to a lighthouse", "optionally belongs to a lighthouse", "an optional lighthouse"]
    {
        let read = read(&format!("{lighthouses}. A keeper has a name and {said}."));
        assert!(read.ends_with(optional), "{said}: {read}");
    }
}

#[test]
fn how_things_stand_to_each_other_is_read_in_many_shapes() {
    for (text, expected) in [
        (
            "A book has a title and belongs to many shelves. Shelves have a number.",
            "book(title:String) shelf(number:Integer) book_shelf(book_id:Reference shelf_id:Reference)",
        ),
        (
            "Users have a name. A ticket has a title, is created by a user and is assigned to a user.",
            "user(name:String) ticket(title:String user_id:Reference assigned_user_id:Reference)",
        ),
        (
            "Users have a name. A parcel has a weight, is sent by a user and is received by a user.",
            "user(name:String) parcel(weight:Decimal user_id:Reference received_user_id:Reference)",
        ),
        ("A folder has a name and belongs to a folder.", "folder(name:String parent_folder_id:Reference?)"),
        (
            "Order items have a quantity and belong to an order.",
            "order_item(quantity:Integer order_id:Reference) order(name:String)",
        ),
        (
            "resources:\n  keepers: [name, belongs to a lighthouse]\n  lighthouses: [name]\n",
            "keeper(name:String lighthouse_id:Reference) lighthouse(name:String)",
        ),
        (
            "resources:\n  keepers: {name: string, belongs_to: lighthouse}\n  lighthouses: [name]\n",
            "keeper(name:String lighthouse_id:Reference) lighthouse(name:String)",
        ),
        (
            "members (name, borrows books), books (title)",
            "member(name:String) book(title:String) borrow(member_id:Reference book_id:Reference)",
        ),
        ("A keeper has a name and many tags.", "keeper(name:String tags:List)"),
        ("A keeper has a name and is part of a guild.", "keeper(name:String guild:String)"),
    ] {
        assert_eq!(read(text), expected, "{text}");
    }
}

#[test]
fn a_sentence_goes_on_about_what_it_began_with() {
    for (text, expected) in [
        (
            "Doctors have a name. Each check-up is done by a doctor, has a follow-up date and costs:decimal.",
            "doctor(name:String) check_up(follow_up_date:Date costs:Decimal doctor_id:Reference)",
        ),
        (
            "Companies (name), containers (number). Ships are owned by a company and may carry containers.",
            "company(name:String) container(number:Integer) ship(company_id:Reference) carry(ship_id:Reference container_id:Reference)",
        ),
        (
            "Patients have a name. Doctors have a name and treat many patients.",
            "patient(name:String) doctor(name:String) treat(doctor_id:Reference patient_id:Reference)",
        ),
        (
            "well-known sub-wards (name) and patients (name). Patients stay in a sub-ward.",
            "well_known_sub_ward(name:String) patient(name:String well_known_sub_ward_id:Reference)",
        ),
        (
            "Leuchttürme (Name, Höhe:float) und Wärter (Name)",
            "leuchttuerme(name:String hoehe:Decimal) waerter(name:String)",
        ),
        (
            "Rooms have a number. Lessons have a title, take place in a room and have a teacher.",
            "room(number:Integer) lesson(title:String teacher:String room_id:Reference)",
        ),
        (
            "Crème-brûlée recipes have a name. Chefs have a name. Each recipe is invented by a chef",
            "creme_brulee_recipe(name:String chef_id:Reference) chef(name:String)",
        ),
        ("Comments have a date and have text etc.", "comment(date:Date text:String)"),
        (
            "users (name, user id); likes with a user id and post id; posts (title). Users follow users",
            "user(name:String) like(user_id:Reference post_id:Reference) post(title:String) follow(user_id:Reference other_user_id:Reference)",
        ),
        (
            "Routes have a title. A store has an address and is on a route; tables (seats:int)",
            "route(title:String) store(address:String route_id:Reference) table(seats:Integer)",
        ),
        ("albums (released on, created by)", "album(released_on:Date created_by:String)"),
        ("cats (legs (int)) dogs (breed)", "cat(legs:Integer) dog(breed:String)"),
    ] {
        assert_eq!(read(text), expected, "{text}");
    }
}

#[test]
fn what_is_not_understood_is_said_and_makes_no_field() {
    for (text, expected, said) in [
        (
            "A keeper has a name and lives in a tall tower.",
            "keeper(name:String)",
            "\"lives in a tall tower\" of a keeper is not understood",
        ),
        (
            "keepers (name, stored in the cellar)",
            "keeper(name:String)",
            "\"stored in the cellar\" of a keeper",
        ),
        ("keepers (name, 😀)", "keeper(name:String)", "\"😀\" of a keeper is not understood"),
        (
            "keepers (name, quite old words without any sense)",
            "keeper(name:String)",
            "sense\" of a keeper is not understood",
        ),
        (
            "A keeper has a name. Keepers get paid monthly.",
            "keeper(name:String)",
            "\"Keepers get paid monthly\"",
        ),
        (
            "keepers (name, sales in euros)",
            "keeper(name:String sales:List)",
            "a keeper has sales; the rest is left out",
        ),
        (
            "A keeper has a name and is part of a guild.",
            "keeper(name:String guild:String)",
            "guild is no resource",
        ),
        (
            "Boxes have a number and weigh a lot.",
            "box(number:Integer)",
            "\"weigh a lot\" of a box is not understood",
        ),
        (
            "Wärter (Name, gehört zu Leuchtturm)",
            "waerter(name:String gehoert_zu_leuchtturm:String)",
            "\"gehört zu Leuchtturm\" of a waerter is taken for a field",
        ),
        (
            "recipes (name, ingredients), ingredients (name)",
            "recipe(name:String ingredients:List) ingredient(name:String)",
            "the ingredients of a recipe are kept as texts",
        ),
        (
            "recipes (distance to the harbour). It must be fast.",
            "recipe(distance:Decimal)",
            "a recipe has distance; the rest is left out",
        ),
        (
            "bands (name). A band may have no albums",
            "band(name:String)",
            "\"no albums\" of a band is not understood",
        ),
        (
            "recipes (name). A store offers a recipe",
            "recipe(name:String)",
            "\"A store offers a recipe\" is not",
        ),
        ("recipes (name). It must be fast.", "recipe(name:String)", "\"It must be fast\" is not understood"),
    ] {
        let spec = from_text(text);
        assert_eq!(sketch(&spec), expected, "{text}");
        assert!(spec.assumptions.iter().any(|noted| noted.contains(said)), "{text}: {:?}", spec.assumptions);
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
