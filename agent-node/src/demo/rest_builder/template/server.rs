//! What every API has in common: tables of records in memory, and a minimal HTTP/1.1 server. One thread and one request
//! per connection; bodies need a `content-length`; no TLS: put a proxy in front of it.

use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Read, Result, Write},
    net::{TcpListener, TcpStream},
    time::Duration,
};

const MAX_REQUEST_BYTES: u64 = 1 << 20;
const TIMEOUT: Duration = Duration::from_secs(10);

/// A request: `path` has no query.
pub struct Request {
    method: String,
    path: String,
    body: String,
}

/// Status and body; no body if it is null.
pub type Response = (u16, Value);

impl Request {
    /// A request for `path`.
    pub fn new(method: &str, path: &str, body: &str) -> Self {
        Self { method: method.to_owned(), path: path.to_owned(), body: body.to_owned() }
    }

    /// The first segment of the path.
    pub fn resource(&self) -> &str {
        self.path.trim_start_matches('/').split('/').next().unwrap_or_default()
    }

    /// The rest of the path: a record's id, empty for the resource itself.
    fn id(&self) -> &str {
        self.path.trim_matches('/').split_once('/').map_or("", |(_, id)| id)
    }
}

/// A response that says what is wrong.
pub fn error(status: u16, message: impl Into<String>) -> Response {
    (status, json!({ "error": message.into() }))
}

/// A record of a resource.
pub trait Record: Serialize + DeserializeOwned {
    /// Says what is wrong with the record's values, if anything.
    fn check(&self) -> std::result::Result<(), String> {
        Ok(())
    }
}

/// The records of a resource by id.
pub struct Table<T> {
    last_id: u64,
    records: BTreeMap<u64, T>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { last_id: 0, records: BTreeMap::new() }
    }
}

impl<T: Record> Table<T> {
    /// Lists and creates records at the resource's path; shows, replaces and deletes a record at the path of its id.
    pub fn answer(&mut self, request: &Request) -> Response {
        match (request.method.as_str(), request.id()) {
            ("GET", "") => (200, self.records.iter().map(|(id, record)| shown(*id, record)).collect()),
            ("POST", "") => self.put(self.last_id + 1, 201, request),
            (_, "") => error(405, "use GET or POST"),
            (method, id) => match (method, id.parse::<u64>().ok().filter(|id| self.records.contains_key(id))) {
                (_, None) => error(404, format!("there is no record {id:?}")),
                ("GET", Some(id)) => (200, shown(id, &self.records[&id])),
                ("PUT", Some(id)) => self.put(id, 200, request),
                ("DELETE", Some(id)) => {
                    self.records.remove(&id);
                    (204, Value::Null)
                }
                _ => error(405, "use GET, PUT or DELETE"),
            },
        }
    }

    fn put(&mut self, id: u64, status: u16, request: &Request) -> Response {
        let parsed = serde_json::from_str::<T>(&request.body).map_err(|error| error.to_string());
        match parsed.and_then(|record| record.check().map(|()| record)) {
            Ok(record) => {
                let shown = shown(id, &record);
                self.last_id = self.last_id.max(id);
                self.records.insert(id, record);
                (status, shown)
            }
            Err(problem) => error(400, problem),
        }
    }
}

fn shown(id: u64, record: &impl Serialize) -> Value {
    let mut value = json!(record);
    value["id"] = json!(id);
    value
}

/// Answers requests at `address` until the process ends.
pub fn serve(address: &str, answer: impl Fn(&Request) -> Response + Sync) -> Result<()> {
    let listener = TcpListener::bind(address)?;
    println!("listening on http://{}", listener.local_addr()?);
    std::thread::scope(|scope| {
        for connection in listener.incoming().flatten() {
            let answer = &answer;
            scope.spawn(move || {
                if let Err(error) = exchange(&connection, answer) {
                    eprintln!("a request failed: {error}");
                }
            });
        }
    });
    Ok(())
}

fn exchange(mut connection: &TcpStream, answer: impl Fn(&Request) -> Response) -> Result<()> {
    connection.set_read_timeout(Some(TIMEOUT))?;
    connection.set_write_timeout(Some(TIMEOUT))?;
    let (status, body) = match read(connection)? {
        Some(request) => answer(&request),
        None => error(400, format!("the request is incomplete or has more than {MAX_REQUEST_BYTES} bytes")),
    };
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let head = format!("content-type: application/json\r\ncontent-length: {}\r\nconnection: close", body.len());
    write!(connection, "HTTP/1.1 {status} \r\n{head}\r\n\r\n{body}")
}

/// The next request; `None` if it is incomplete or too large.
fn read(connection: &TcpStream) -> Result<Option<Request>> {
    let mut reader = BufReader::new(connection.take(MAX_REQUEST_BYTES));
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let mut length = 0;
    for header in reader.by_ref().lines() {
        match header?.split_once(':') {
            None => break,
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                length = value.trim().parse().unwrap_or(u64::MAX);
            }
            Some(_) => {}
        }
    }
    let mut body = String::new();
    reader.take(length).read_to_string(&mut body)?;
    let mut words = line.split([' ', '?']);
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    Ok((body.len() as u64 == length).then(|| Request::new(method, path, &body)))
}
