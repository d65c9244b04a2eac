//! What sentences say of how things stand to each other.

use super::*;

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
fn what_a_thing_may_have_is_optional_and_what_it_must_have_is_not() {
    for (said, expected) in [
        ("may have a subtitle", "subtitle:String?"),
        ("they can also have a cover (url)", "cover:Url?"),
        ("optionally have a blurb", "blurb:String?"),
        ("must have a year", "year:Integer"),
        ("should always have an ISBN", "isbn:String"),
    ] {
        assert_eq!(
            read(&format!("Books have a title, {said}.")),
            format!("book(title:String {expected})"),
            "{said}"
        );
    }
}

#[test]
fn what_is_made_by_some_refers_to_one_of_them_whether_one_or_many_are_spoken_of() {
    for (made, by) in [
        ("placed", "customer"),
        ("written", "author"),
        ("submitted", "student"),
        ("uploaded", "member"),
        ("made", "baker"),
    ] {
        let expected = format!("order(date:Date {by}_id:Reference) {by}(name:String)");
        for said in [
            format!("Each order is {made} by a {by}"),
            format!("Orders are {made} by {by}s"),
            format!("Orders are {made} by a {by}"),
        ] {
            assert_eq!(read(&format!("orders (date), {by}s (name). {said}.")), expected, "{said}");
        }
        let said = format!("Orders have a date and are {made} by {by}s. {by}s have a name.");
        let spec = from_text(&said);
        assert_eq!(sketch(&spec), expected, "{said}");
        let relation = &spec.relations[0];
        assert_eq!((relation.from.as_str(), relation.to.as_str()), ("order", by), "{said}");
        assert_eq!(relation.verb, format!("{made} by"), "{said}");
    }
    for said in ["authors write books", "an author writes books"] {
        let expected = "author(name:String) book(title:String author_id:Reference)";
        assert_eq!(read(&format!("authors (name), books (title). {said}.")), expected, "{said}");
    }
    for said in ["An order is placed by customers", "Orders are placed by several customers"] {
        let expected =
            "order(date:Date) customer(name:String) order_customer(order_id:Reference customer_id:Reference)";
        assert_eq!(read(&format!("orders (date), customers (name). {said}.")), expected, "{said}");
    }
}

#[test]
fn what_is_made_by_one_and_given_to_another_refers_to_both() {
    let read = read("users (name), tickets (title). Users create tickets. Tickets are assigned to a user.");
    assert_eq!(read, "user(name:String) ticket(title:String user_id:Reference assigned_user_id:Reference)");
}

#[test]
fn two_deeds_between_the_same_things_are_told_apart() {
    let said = "Messages are sent by users and received by users. Messages are opened by users.";
    let spec = from_text(&format!("users (name), messages (body). {said}"));
    let both = "(message_id:Reference user_id:Reference)";
    assert!(
        sketch(&spec)
            .contains(&format!(" message_user{both} opened_message_user{both} received_message_user{both}")),
        "{}",
        sketch(&spec)
    );
    assert_eq!(spec.relations.len(), 3, "{:?}", spec.relations);
}

#[test]
fn what_is_done_by_some_is_told_of_those_who_do_it() {
    for (said, active, kept) in [
        (
            "Books are borrowed by members",
            "members borrow books",
            "borrow(member_id:Reference book_id:Reference)",
        ),
        ("Books are bought by members", "members buy books", "buy(member_id:Reference book_id:Reference)"),
        (
            "Books are reviewed by members",
            "books reviewed by members",
            "book_member(book_id:Reference member_id:Reference)",
        ),
    ] {
        let spec = from_text(&format!("books (title), members (name). {said}."));
        assert_eq!(sketch(&spec), format!("book(title:String) member(name:String) {kept}"), "{said}");
        assert!(spec.assumptions[0].contains(active), "{said}: {:?}", spec.assumptions);
    }
}

#[test]
fn a_type_that_is_said_stands_whatever_the_field_is_called() {
    for (text, expected) in [
        ("types (type:string)", "type(type:String)"),
        ("types (type string), rooms (type)", "type(type:String) room(type_id:Reference)"),
        (
            "authors (name), books (title, author:string)",
            "author(name:String) book(title:String author:String)",
        ),
        (
            "authors (name), books (title, author (text))",
            "author(name:String) book(title:String author:String)",
        ),
        (
            "authors (name), books (author:text). Authors write books.",
            "author(name:String) book(author:String author_id:Reference)",
        ),
        ("authors (name), books (author:reference)", "author(name:String) book(author_id:Reference)"),
        (
            "resources:\n  types:\n    type: string\n  rooms: [type]\n",
            "room(type_id:Reference) type(type:String)",
        ),
    ] {
        let spec = from_text(text);
        assert_eq!(sketch(&spec), expected, "{text}");
        assert_eq!(from_value(&serde_json::to_value(&spec).unwrap()).unwrap(), spec, "{text}");
    }
}

#[test]
fn what_a_thing_may_do_is_optional() {
    for (said, expected) in [
        ("may bite", "bite:String?"),
        ("might bark:bool", "bark:Boolean?"),
        ("sometimes sleeps", "sleeps:List?"),
        ("must shine", "shine:String"),
        ("can swim", "can_swim:Boolean"),
        ("will text", "will_text:String"),
        ("might int", "might:Integer"),
        ("must have date", "date:Date"),
        ("will", "will:String"),
        ("may", "may:String"),
    ] {
        assert_eq!(read(&format!("dogs (name, {said})")), format!("dog(name:String {expected})"), "{said}");
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
        (
            "Notes have a title; notes are shared with users; users have an e-mail",
            "note(title:String) user(e_mail:Email) note_user(note_id:Reference user_id:Reference)",
        ),
        (
            "Stores have a name; products (sku) are sold in stores",
            "store(name:String) product(sku:String) product_store(product_id:Reference store_id:Reference)",
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
            "recipes (name). The recipe shines.",
            "recipe(name:String)",
            "\"The recipe shines\" is not understood",
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
