use std::{
    io::{BufRead, BufReader, Write},
    net::TcpListener,
};

struct Plant {
    name: String,
    species: String,
}

struct Sensor {
    kind: String,
    reading: f64,
}

fn main() {
    let (mut plants, mut sensors) = (Vec::new(), Vec::new());
    for stream in TcpListener::bind("127.0.0.1:8080").unwrap().incoming() {
        let mut stream = stream.unwrap();
        let mut head = String::new();
        BufReader::new(&stream).read_line(&mut head).unwrap();
        let mut words = head.split(' ');
        let (method, target) = (words.next().unwrap(), words.next().unwrap());
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let field = |name: &str| query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
        match (method, path) {
            ("POST", "/plants") => plants.push(Plant {
                name: field("name").unwrap().to_owned(),
                species: field("species").unwrap().to_owned(),
            }),
            ("POST", "/sensors") => sensors.push(Sensor {
                kind: field("kind").unwrap().to_owned(),
                reading: field("reading").unwrap().parse().unwrap(),
            }),
            _ => {}
        }
        let plants: Vec<_> = plants.iter().map(|it: &Plant| format!("{:?}", (&it.name, &it.species))).collect();
        let sensors: Vec<_> = sensors.iter().map(|it: &Sensor| format!("{:?}", (&it.kind, it.reading))).collect();
        let body = if path == "/plants" { plants } else { sensors }.join("\n");
        write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len()).unwrap();
    }
}
