//! The plan on paper, and cut into parts.

use super::{PARTS, WHOLE, words};
use crate::demo::spec::{Operation, Spec};
use std::fmt::Write;

/// The plan for people.
pub(super) fn written(spec: &Spec) -> String {
    let mut out = format!("# Plan: the {} API\n", spec.title);
    for resource in &spec.resources {
        let _ = writeln!(
            out,
            "\n## {}\n\n| field | type | required |\n|---|---|---|",
            words::spoken(&words::plural(&resource.name))
        );
        for field in &resource.fields {
            let of = field.refers_to.as_ref().map(|target| format!(" to {target}")).unwrap_or_default();
            let _ = writeln!(
                out,
                "| {} | {}{of} | {} |",
                field.name,
                field.kind.word(),
                if field.required { "yes" } else { "no" }
            );
        }
        out.push('\n');
        for operation in &resource.operations {
            let (method, tail) = match operation {
                Operation::List => ("GET", ""),
                Operation::Create => ("POST", ""),
                Operation::Get => ("GET", "/{id}"),
                Operation::Update => ("PUT", "/{id}"),
                Operation::Delete => ("DELETE", "/{id}"),
            };
            let _ = writeln!(out, "- `{method} {}{tail}`", resource.path);
        }
    }
    let relations = spec.relations.iter().map(|relation| {
        format!("{} {} {}", words::spoken(&relation.from), relation.verb, words::spoken(&relation.to))
    });
    section(&mut out, "Relations", relations);
    section(&mut out, "Assumptions", spec.assumptions.iter().cloned());
    out
}

fn section(out: &mut String, title: &str, lines: impl Iterator<Item = String>) {
    let lines: String = lines.map(|line| format!("- {line}\n")).collect();
    if !lines.is_empty() {
        let _ = write!(out, "\n## {title}\n\n{lines}");
    }
}

/// The plan as it is given away: whole, or cut so that every part has about as many resources.
pub(super) fn parts(spec: &Spec) -> Vec<Spec> {
    if spec.resources.len() <= WHOLE {
        return vec![spec.clone()];
    }
    let size = spec.resources.len().div_ceil(PARTS);
    let parts = spec.resources.chunks(size).map(|resources| {
        let has = |name: &String| resources.iter().any(|resource| resource.name == *name);
        let relations = spec.relations.iter().filter(|relation| has(&relation.from)).cloned().collect();
        let (title, resources) = (spec.title.clone(), resources.to_vec());
        Spec { title, resources, relations, ..Spec::default() }
    });
    parts.collect()
}
