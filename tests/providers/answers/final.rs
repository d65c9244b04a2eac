//! A greenhouse: plants and sensors, in memory. `POST /plants?name=Fern&species=Polypodium`, then `GET /plants`.

use std::{
    io::{self, BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
};

/// A plant.
struct Plant {
    name: String,
    species: String,
}

/// A sensor and what it reads.
struct Sensor {
    kind: String,
    reading: f64,
}

/// Everything in the greenhouse.
#[derive(Default)]
struct Greenhouse {
    plants: Vec<Plant>,
    sensors: Vec<Sensor>,
}

impl Greenhouse {
    /// Status and JSON body for a request.
    fn answer(&mut self, method: &str, target: &str) -> (u16, String) {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        match (method, path) {
            ("GET", "/plants") => (200, list(self.plants.iter().map(Plant::to_json))),
            ("GET", "/sensors") => (200, list(self.sensors.iter().map(Sensor::to_json))),
            ("POST", "/plants") => created(Plant::read(query).map(|plant| self.plants.push(plant))),
            ("POST", "/sensors") => created(Sensor::read(query).map(|sensor| self.sensors.push(sensor))),
            _ => (404, r#"{"error":"there are /plants and /sensors"}"#.to_owned()),
        }
    }
}

impl Plant {
    fn read(query: &str) -> Result<Self, String> {
        Ok(Self { name: field(query, "name")?, species: field(query, "species")? })
    }

    fn to_json(&self) -> String {
        format!(r#"{{"name":"{}","species":"{}"}}"#, self.name, self.species)
    }
}

impl Sensor {
    fn read(query: &str) -> Result<Self, String> {
        let reading = field(query, "reading")?.parse().map_err(|_| "reading must be a number".to_owned())?;
        Ok(Self { kind: field(query, "kind")?, reading })
    }

    fn to_json(&self) -> String {
        format!(r#"{{"kind":"{}","reading":{}}}"#, self.kind, self.reading)
    }
}

/// A field of the query. Fails if it is missing or has other characters than are allowed, so that it needs no escape in JSON.
fn field(query: &str, name: &str) -> Result<String, String> {
    let value = query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
    let value = value.unwrap_or_default();
    let is_allowed = |char: char| char.is_ascii_alphanumeric() || "-.".contains(char);
    match (1..=100).contains(&value.len()) && value.chars().all(is_allowed) {
        true => Ok(value.to_owned()),
        false => Err(format!("{name} must have 1 to 100 letters, digits, - and .")),
    }
}

fn list(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(","))
}

fn created(outcome: Result<(), String>) -> (u16, String) {
    match outcome {
        Ok(()) => (201, "{}".to_owned()),
        Err(problem) => (400, format!(r#"{{"error":"{problem}"}}"#)),
    }
}

fn serve(mut stream: TcpStream, greenhouse: &mut Greenhouse) -> io::Result<()> {
    let mut head = String::new();
    BufReader::new(&stream).read_line(&mut head)?;
    let mut words = head.split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let (status, body) = greenhouse.answer(method, target);
    write!(stream, "HTTP/1.1 {status} \r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

fn main() -> io::Result<()> {
    let mut greenhouse = Greenhouse::default();
    for stream in TcpListener::bind("127.0.0.1:8080")?.incoming() {
        if let Err(error) = stream.and_then(|stream| serve(stream, &mut greenhouse)) {
            eprintln!("a request failed: {error}");
        }
    }
    Ok(())
}

#[test]
fn what_was_posted_is_listed_and_what_is_invalid_is_refused() {
    let mut greenhouse = Greenhouse::default();
    assert_eq!(greenhouse.answer("POST", "/plants?name=Fern&species=Polypodium").0, 201);
    assert_eq!(greenhouse.answer("GET", "/plants").1, r#"[{"name":"Fern","species":"Polypodium"}]"#);
    assert_eq!(greenhouse.answer("POST", "/sensors?kind=heat&reading=warm").0, 400);
    assert_eq!(greenhouse.answer("POST", "/plants?name=").0, 400);
    assert_eq!(greenhouse.answer("GET", "/nothing").0, 404);
}
