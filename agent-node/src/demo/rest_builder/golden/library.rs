//! REST handlers for the library API: books, members and borrows.
//!
//! Written by agent-01 (thorough). Data lives in memory and goes with the process.

use actix_web::{HttpResponse, web};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, sync::Mutex};

/// What all handlers share.
pub type Shared = web::Data<Mutex<Store>>;

/// Everything the API knows.
#[derive(Debug, Default)]
pub struct Store {
    next_id: u64,
    books: BTreeMap<u64, Book>,
    members: BTreeMap<u64, Member>,
    borrows: BTreeMap<u64, Borrow>,
}

impl Store {
    fn new_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }
}

/// What a caller says of a book.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct BookInput {
    pub title: String,
    pub isbn: String,
    pub year: i64,
    pub tags: Vec<String>,
    #[serde(default)]
    pub website: Option<String>,
}

/// A book, as the API keeps it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Book {
    pub id: u64,
    #[serde(flatten)]
    pub content: BookInput,
}

impl BookInput {
    fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        check_text(&mut problems, "title", Some(self.title.as_str()));
        check_isbn(&mut problems, "isbn", Some(self.isbn.as_str()));
        check_whole(&mut problems, "year", Some(self.year), 0, 9999);
        check_list(&mut problems, "tags", &self.tags);
        check_url(&mut problems, "website", self.website.as_deref());
        problems
    }
}

/// Lists all books.
pub async fn list_books(store: Shared) -> HttpResponse {
    let store = store.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    HttpResponse::Ok().json(store.books.values().collect::<Vec<_>>())
}

/// Shows a book.
pub async fn get_book(store: Shared, id: web::Path<u64>) -> HttpResponse {
    let store = store.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    match store.books.get(&id.into_inner()) {
        Some(item) => HttpResponse::Ok().json(item),
        None => HttpResponse::NotFound().finish(),
    }
}

/// Adds a book, unless something is wrong with it.
pub async fn create_book(store: Shared, body: web::Json<BookInput>) -> HttpResponse {
    let mut store = store.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let content = body.into_inner();
    let problems = content.problems();
    if !problems.is_empty() {
        return HttpResponse::UnprocessableEntity().json(problems);
    }
    let item = Book { id: store.new_id(), content };
    store.books.insert(item.id, item.clone());
    HttpResponse::Created().json(item)
}

/// Replaces what is known of a book.
pub async fn update_book(
    store: Shared,
    id: web::Path<u64>,
    body: web::Json<BookInput>,
) -> HttpResponse {
    let mut store = store.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let content = body.into_inner();
    let problems = content.problems();
    if !problems.is_empty() {
        return HttpResponse::UnprocessableEntity().json(problems);
    }
    match store.books.get_mut(&id.into_inner()) {
        Some(item) => {
            item.content = content;
            HttpResponse::Ok().json(item)
        }
        None => HttpResponse::NotFound().finish(),
    }
}

/// Forgets a book.
pub async fn delete_book(store: Shared, id: web::Path<u64>) -> HttpResponse {
    let mut store = store.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    match store.books.remove(&id.into_inner()) {
        Some(_) => HttpResponse::NoContent().finish(),
        None => HttpResponse::NotFound().finish(),
    }
}

fn book_routes(cfg: &mut web::ServiceConfig) {
    cfg.service(
        web::resource("/books")
            .route(web::get().to(list_books))
            .route(web::post().to(create_book)),
    );
    cfg.service(
        web::resource("/books/{id}")
            .route(web::get().to(get_book))
            .route(web::put().to(update_book))
            .route(web::delete().to(delete_book)),
    );
}

/// What a caller says of a member.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct MemberInput {
    pub name: String,
    pub email: String,
}

/// A member, as the API keeps it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Member {
    pub id: u64,
    #[serde(flatten)]
    pub content: MemberInput,
}

impl MemberInput {
    fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        check_text(&mut problems, "name", Some(self.name.as_str()));
        check_email(&mut problems, "email", Some(self.email.as_str()));
        problems
    }
}

/// Lists all members.
pub async fn list_members(store: Shared) -> HttpResponse {
    let store = store.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    HttpResponse::Ok().json(store.members.values().collect::<Vec<_>>())
}

/// Shows a member.
pub async fn get_member(store: Shared, id: web::Path<u64>) -> HttpResponse {
    let store = store.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    match store.members.get(&id.into_inner()) {
        Some(item) => HttpResponse::Ok().json(item),
        None => HttpResponse::NotFound().finish(),
    }
}

/// Adds a member, unless something is wrong with it.
pub async fn create_member(store: Shared, body: web::Json<MemberInput>) -> HttpResponse {
    let mut store = store.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let content = body.into_inner();
    let problems = content.problems();
    if !problems.is_empty() {
        return HttpResponse::UnprocessableEntity().json(problems);
    }
    let item = Member { id: store.new_id(), content };
    store.members.insert(item.id, item.clone());
    HttpResponse::Created().json(item)
}

/// Replaces what is known of a member.
pub async fn update_member(
    store: Shared,
    id: web::Path<u64>,
    body: web::Json<MemberInput>,
) -> HttpResponse {
    let mut store = store.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let content = body.into_inner();
    let problems = content.problems();
    if !problems.is_empty() {
        return HttpResponse::UnprocessableEntity().json(problems);
    }
    match store.members.get_mut(&id.into_inner()) {
        Some(item) => {
            item.content = content;
            HttpResponse::Ok().json(item)
        }
        None => HttpResponse::NotFound().finish(),
    }
}

/// Forgets a member.
pub async fn delete_member(store: Shared, id: web::Path<u64>) -> HttpResponse {
    let mut store = store.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    match store.members.remove(&id.into_inner()) {
        Some(_) => HttpResponse::NoContent().finish(),
        None => HttpResponse::NotFound().finish(),
    }
}

fn member_routes(cfg: &mut web::ServiceConfig) {
    cfg.service(
        web::resource("/members")
            .route(web::get().to(list_members))
            .route(web::post().to(create_member)),
    );
    cfg.service(
        web::resource("/members/{id}")
            .route(web::get().to(get_member))
            .route(web::put().to(update_member))
            .route(web::delete().to(delete_member)),
    );
}

/// What a caller says of a borrow.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct BorrowInput {
    pub member_id: u64,
    pub book_id: u64,
}

/// A borrow, as the API keeps it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Borrow {
    pub id: u64,
    #[serde(flatten)]
    pub content: BorrowInput,
}

impl BorrowInput {
    fn problems(&self, store: &Store) -> Vec<String> {
        let mut problems = Vec::new();
        check_known(&mut problems, "member_id", store.members.contains_key(&self.member_id));
        check_known(&mut problems, "book_id", store.books.contains_key(&self.book_id));
        problems
    }
}

/// Lists all borrows.
pub async fn list_borrows(store: Shared) -> HttpResponse {
    let store = store.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    HttpResponse::Ok().json(store.borrows.values().collect::<Vec<_>>())
}

/// Shows a borrow.
pub async fn get_borrow(store: Shared, id: web::Path<u64>) -> HttpResponse {
    let store = store.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    match store.borrows.get(&id.into_inner()) {
        Some(item) => HttpResponse::Ok().json(item),
        None => HttpResponse::NotFound().finish(),
    }
}

/// Adds a borrow, unless something is wrong with it.
pub async fn create_borrow(store: Shared, body: web::Json<BorrowInput>) -> HttpResponse {
    let mut store = store.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let content = body.into_inner();
    let problems = content.problems(&store);
    if !problems.is_empty() {
        return HttpResponse::UnprocessableEntity().json(problems);
    }
    let item = Borrow { id: store.new_id(), content };
    store.borrows.insert(item.id, item.clone());
    HttpResponse::Created().json(item)
}

/// Replaces what is known of a borrow.
pub async fn update_borrow(
    store: Shared,
    id: web::Path<u64>,
    body: web::Json<BorrowInput>,
) -> HttpResponse {
    let mut store = store.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let content = body.into_inner();
    let problems = content.problems(&store);
    if !problems.is_empty() {
        return HttpResponse::UnprocessableEntity().json(problems);
    }
    match store.borrows.get_mut(&id.into_inner()) {
        Some(item) => {
            item.content = content;
            HttpResponse::Ok().json(item)
        }
        None => HttpResponse::NotFound().finish(),
    }
}

/// Forgets a borrow.
pub async fn delete_borrow(store: Shared, id: web::Path<u64>) -> HttpResponse {
    let mut store = store.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    match store.borrows.remove(&id.into_inner()) {
        Some(_) => HttpResponse::NoContent().finish(),
        None => HttpResponse::NotFound().finish(),
    }
}

fn borrow_routes(cfg: &mut web::ServiceConfig) {
    cfg.service(
        web::resource("/borrows")
            .route(web::get().to(list_borrows))
            .route(web::post().to(create_borrow)),
    );
    cfg.service(
        web::resource("/borrows/{id}")
            .route(web::get().to(get_borrow))
            .route(web::put().to(update_borrow))
            .route(web::delete().to(delete_borrow)),
    );
}

/// Every route of the API.
pub fn routes(cfg: &mut web::ServiceConfig) {
    book_routes(cfg);
    member_routes(cfg);
    borrow_routes(cfg);
}

fn check_isbn(problems: &mut Vec<String>, name: &str, value: Option<&str>) {
    let is_isbn = |text: &str| {
        let digits: Vec<char> = text.chars().filter(|c| !matches!(c, '-' | ' ')).collect();
        let (last, firsts) = digits.split_last().unwrap_or((&' ', &[]));
        let ends_well = last.is_ascii_digit() || (*last == 'X' && firsts.len() == 9);
        ends_well && matches!(firsts.len(), 9 | 12) && firsts.iter().all(char::is_ascii_digit)
    };
    if value.is_some_and(|text| !is_isbn(text)) {
        problems.push(format!("{name} must be an ISBN of 10 or 13 digits"));
    }
}

fn check_email(problems: &mut Vec<String>, name: &str, value: Option<&str>) {
    let is_email = |text: &str| match text.split_once('@') {
        Some((user, host)) => {
            let is_plain = !text.contains(char::is_whitespace) && !host.contains('@');
            let is_host = host.contains('.') && !host.split('.').any(str::is_empty);
            is_plain && is_host && !user.is_empty()
        }
        None => false,
    };
    if value.is_some_and(|text| !is_email(text)) {
        problems.push(format!("{name} must be an address like ada@example.org"));
    }
}

fn check_url(problems: &mut Vec<String>, name: &str, value: Option<&str>) {
    let is_url = |text: &str| {
        let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
        host.is_some_and(|host| !host.is_empty() && !host.contains(char::is_whitespace))
    };
    if value.is_some_and(|text| !is_url(text)) {
        problems.push(format!("{name} must be a URL that begins with http:// or https://"));
    }
}

fn check_whole(problems: &mut Vec<String>, name: &str, value: Option<i64>, min: i64, max: i64) {
    if value.is_some_and(|number| !(min..=max).contains(&number)) {
        problems.push(format!("{name} must be from {min} to {max}"));
    }
}

fn check_list(problems: &mut Vec<String>, name: &str, values: &[String]) {
    if values.len() > 1_000 || values.iter().any(|text| text.trim().is_empty()) {
        problems.push(format!("{name} must have at most 1000 entries, none of them empty"));
    }
}

fn check_known(problems: &mut Vec<String>, name: &str, is_known: bool) {
    if !is_known {
        problems.push(format!("{name} refers to nothing that exists"));
    }
}

fn check_text(problems: &mut Vec<String>, name: &str, value: Option<&str>) {
    match value {
        Some(text) if text.trim().is_empty() => problems.push(format!("{name} must not be empty")),
        Some(text) if text.len() > 10_000 => problems.push(format!("{name} is too long")),
        Some(_) | None => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use actix_web::{App, http::StatusCode, test as http};

    fn sample_book() -> BookInput {
        BookInput {
            title: "some title".to_owned(),
            isbn: "978-0-306-40615-7".to_owned(),
            year: 2001,
            tags: vec!["one".to_owned()],
            website: Some("https://example.org".to_owned()),
        }
    }

    #[test]
    fn a_book_with_an_empty_title_is_refused() {
        let item = BookInput {
            title: String::new(),
            ..sample_book()
        };
        assert!(!item.problems().is_empty());
    }

    #[actix_web::test]
    async fn a_book_comes_and_goes() {
        let store = web::Data::new(Mutex::new(Store::default()));
        let app = http::init_service(App::new().app_data(store).configure(routes)).await;
        let body = sample_book();
        let create = http::TestRequest::post().uri("/books");
        let create = create.set_json(&body).to_request();
        let created: Book =
            http::call_and_read_body_json(&app, create).await;
        let uri = format!("/books/{}", created.id);
        for (request, expected) in [
            (http::TestRequest::get().uri(&uri), StatusCode::OK),
            (http::TestRequest::put().uri(&uri).set_json(&body), StatusCode::OK),
            (http::TestRequest::delete().uri(&uri), StatusCode::NO_CONTENT),
            (http::TestRequest::get().uri(&uri), StatusCode::NOT_FOUND),
        ] {
            let answer = http::call_service(&app, request.to_request()).await;
            assert_eq!(answer.status(), expected);
        }
    }

    fn sample_member() -> MemberInput {
        MemberInput {
            name: "some name".to_owned(),
            email: "ada@example.org".to_owned(),
        }
    }

    #[test]
    fn a_member_with_an_empty_name_is_refused() {
        let item = MemberInput {
            name: String::new(),
            ..sample_member()
        };
        assert!(!item.problems().is_empty());
    }

    #[actix_web::test]
    async fn a_member_comes_and_goes() {
        let store = web::Data::new(Mutex::new(Store::default()));
        let app = http::init_service(App::new().app_data(store).configure(routes)).await;
        let body = sample_member();
        let create = http::TestRequest::post().uri("/members");
        let create = create.set_json(&body).to_request();
        let created: Member =
            http::call_and_read_body_json(&app, create).await;
        let uri = format!("/members/{}", created.id);
        for (request, expected) in [
            (http::TestRequest::get().uri(&uri), StatusCode::OK),
            (http::TestRequest::put().uri(&uri).set_json(&body), StatusCode::OK),
            (http::TestRequest::delete().uri(&uri), StatusCode::NO_CONTENT),
            (http::TestRequest::get().uri(&uri), StatusCode::NOT_FOUND),
        ] {
            let answer = http::call_service(&app, request.to_request()).await;
            assert_eq!(answer.status(), expected);
        }
    }
}
