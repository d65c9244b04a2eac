use super::*;

fn faults(text: &str) -> String {
    Team::parse("team.yaml", text, None).map(|_| "no fault".to_owned()).unwrap_or_else(|bad| bad.to_string())
}

#[test]
fn an_agent_is_parsed_with_all_its_members() {
    let text = "
agent: builder-01
description: Implements REST endpoints from a plan
skills: [{ id: implement-api, tags: [rest], outputModes: [text/plain] }, review]
brain: { exec: [cat, -n, 5] }
env: { PORT: 8080, DEBUG: true, NAME: '${MESH_NO_SUCH_VARIABLE:-x}' }
bid: { cost: 0.02, eta: 2m, maxParallel: 2 }
subscribe: ['task.available', 'help.*', 'acme.*']
open: true
port: ${MESH_NO_SUCH_VARIABLE:-8004}
";
    let team = Team::parse("builder.yaml", text, None).unwrap();
    let [agent] = team.agents.as_slice() else { panic!("one agent") };
    assert_eq!((agent.id.as_str(), agent.settings.skills.len(), agent.port), ("builder-01", 2, Some(8004)));
    let terms = agent.settings.bid.terms();
    assert_eq!((terms.cost.get(), terms.eta.0, terms.max_parallel), (0.02, 120_000, 2));
    let BrainConfig::Exec { command, env, .. } = &agent.brain else { panic!("exec") };
    assert_eq!(command, &["cat", "-n", "5"]);
    assert_eq!(
        env.iter().map(|(k, v)| format!("{k}={v}")).collect::<Vec<_>>(),
        ["DEBUG=true", "NAME=x", "PORT=8080"]
    );
    let card = agent.settings.card(agent.id.clone(), "http://127.0.0.1:8004".to_owned(), Default::default());
    assert!(card.open && card.endpoint.ends_with("8004") && card.skills[1].id.as_str() == "review");
}

#[test]
fn a_type_error_names_line_and_key() {
    for (agent, what) in [
        (
            "brain: echo",
            "agents[0].brain: has one kind with its settings: exec, http, scripted, echo, llm, a2a or peer, such as `echo: {}`",
        ),
        (
            "brain: {echo: {}, exec: {command: [x]}}",
            "agents[0].brain: has one kind with its settings: exec, http, scripted, echo, llm, a2a or peer, such as `echo: {}`",
        ),
        (
            "brain: {}",
            "agents[0].brain: has one kind with its settings: exec, http, scripted, echo, llm, a2a or peer, such as `echo: {}`",
        ),
        (
            "brain: {echo: {}, user: nobody}",
            "agents[0].brain.user: is for an exec brain; this one runs no command",
        ),
        ("brain: {exec: [x], user: [y]}", "agents[0].brain.user: expected text, got a list"),
        ("port: 99999, brain: {echo: {}}", "agents[0].port: invalid value: integer `99999`, expected u16"),
        (
            "brain: {llm: {model: ollama/x, maxTokens: many}}",
            "agents[0].brain.llm.maxTokens: invalid type: string \"many\", expected u32",
        ),
        (
            "brain: {echo: {}}, a2a: {publicUrl: 'ftp://x'}",
            "agents[0].a2a.publicUrl: \"ftp://x\" is no public URL",
        ),
        ("brain: {echo: {}}, a2a: {direct: 1}", "agents[0].a2a.direct: invalid type: integer `1`"),
        ("brain: {exec: [x, [y]]}", "agents[0].brain.exec[1]: expected text, got a list"),
        (
            "brain: {exec: {command: [no-such-command]}}",
            "agents[0].brain.exec.command: there is no command no-such-command",
        ),
        (
            "brain: {a2a: {card: 'http://x', mode: soon}}",
            "agents[0].brain.a2a.mode: unknown variant `soon`, expected one of `sync`, `polling`",
        ),
        ("brain: {http: {url: 'http://x', secret: short}}", "agents[0].brain.http.secret: needs 16"),
        ("brain: {llm: {url: 'http://x'}}", "agents[0].brain.llm: missing field `model`"),
        (
            "brain: {llm: {model: ollama/x, rounds: {}}}",
            "agents[0].brain.llm.rounds: invalid type: map, expected u32",
        ),
        (
            "brain: {llm: {model: ollama/x, fallback: [ollama/y, {model: ollama/z, stop: 1}]}}",
            "agents[0].brain.llm.fallback[1].stop: invalid type: integer `1`, expected a sequence",
        ),
        (
            "brain: {llm: {model: ollama/x, fallback: [no/y]}}",
            "agents[0].brain.llm.fallback[0].model: \"no/y\" names no known provider",
        ),
        (
            "brain: {llm: {model: ollama/x, fallback: [{modle: ollama/z}]}}",
            "agents[0].brain.llm.fallback[0].modle: unknown key; did you mean `model`?",
        ),
    ] {
        let message = faults(&format!("agents: [{{agent: a, {agent}}}]"));
        assert!(message.starts_with(&format!("team.yaml:1: {what}")), "{message}");
    }
}

#[test]
fn documents_and_a_team_file_give_the_same_team() {
    let documents = "agent: a\nbrain: {echo: {}}\n---\nagent: b\nbrain: {echo: {}}\n";
    let team = "agents: [{agent: a, brain: {echo: {}}}, {agent: b, brain: {echo: {}}}]";
    let (one, other) = (Team::parse("x", documents, None).unwrap(), Team::parse("x", team, None).unwrap());
    assert_eq!(one, other);
}

#[test]
fn the_file_overrides_its_timing_preset() {
    let text = "
mesh: { profile: fast, limits: { ackMs: 7 }, auction: { strategy: best-match, fanout: 3, weights: { match: 1 } }, registry: { leaseMs: 9000 } }
agents: [{ agent: a, brain: { echo: {} } }]";
    let mesh = Team::parse("x", text, None).unwrap().mesh;
    let fast = MeshConfig::of(TimingPreset::Fast);
    assert_eq!((mesh.limits.ack_ms, mesh.limits.head_ms), (7, fast.limits.head_ms));
    assert_eq!((mesh.auction.fanout, mesh.auction.bid_window_ms), (3, fast.auction.bid_window_ms));
    assert!((mesh.auction.weights.fit - 1.0).abs() < 1e-9 && mesh.auction.weights.cost > 0.0);
    assert_eq!((mesh.registry.lease_ms, mesh.registry.heartbeat_ms), (9_000, 2_000));
}

#[test]
fn the_demo_team_is_valid() {
    let team = Team::demo(TimingPreset::Default).unwrap();
    assert!(team.agents.len() >= 5);
    assert_eq!(team.agents[0].id.as_str(), "planner-01");
}

#[test]
fn a_fault_names_file_line_key_and_remedy() {
    for (text, parts) in [
        ("agent: a\nbrian: {echo: {}}", &["team.yaml:2: brian: unknown key; did you mean `brain`?"][..]),
        ("agent: a\nbrain: {exce: [x]}", &["team.yaml:2: brain.exce: unknown key; did you mean `exec`?"]),
        (
            "agents:\n- agent: a\n  brain: {echo: {}}\n  bid:\n    maxparalel: 2",
            &["team.yaml:5: agents[0].bid.maxparalel: unknown key; did you mean `maxParallel`?"],
        ),
        (
            "agent: a\nbrain: {echo: {}}\naccept: [{exec: cmd}]",
            &[":3: accept[0].exec: invalid type: string \"cmd\", expected a sequence"],
        ),
        (
            "agent: a\nbrain: {exec: {command: cmd}}",
            &[":2: brain.exec.command: invalid type: string \"cmd\", expected a sequence"],
        ),
        (
            "agent: a\nbrain: {echo: {}}\naccept: {exec: [no-such-check]}",
            &[":3: accept.exec: there is no command no-such-check in PATH="],
        ),
        ("agent: a\nbrain: {echo: {}}\nbid: {ask: brain}", &["the bids of this one are always computed"]),
        ("agent: a\nbrain: {echo: {}}\nzzz: 1", &[":3: zzz: unknown key; there are a2a, accept, agent,"]),
        ("agent: a\nbrain: {echo: {}}\nskills: [{id: x, tag: [y]}]", &[":3: skills[0].tag: ", "`tags`"]),
        ("mesh: {limits: {ackms: 5}}\nagents: []", &["mesh.limits.ackms: ", "`ackMs`"]),
        (
            "mesh: {limits: {maxDepth: 101}}\nagents: [{agent: a, brain: {echo: {}}}]",
            &["limits.maxDepth", "must be from 1 to 100"],
        ),
        ("agent: ../x\nbrain: {echo: {}}", &["team.yaml:1: agent: an agent id must match", "\"../x\""]),
        ("agent: a", &["team.yaml:1: missing field `brain`"]),
        ("agent: a\nbrain: {echo: {}}\nbid: {cost: -1}", &[":3: bid.cost: a cost is a number from 0"]),
        ("agent: a\nbrain: {echo: {}}\nbid: {eta: soon}", &[":3: bid.eta: ", "5min", "soon"]),
        ("agent: a\nbrain: {echo: {}}\nport: 99999", &[":3: port: ", "99999"]),
        ("agent: a\nbrain: {echo: {}}\nport: 0", &[":3: port: must be at least 1"]),
        ("agent: a\nbrain: {echo: {}}\nopen: maybe", &[":3: open: expected true, false or delegate"]),
        ("agent: a\nbrain: {echo: {}}\nsubscribe: [task.done]", &[":3: subscribe[0]: \"task.done\" fits no"]),
        ("agent: a\nbrain: {echo: {}}\nskills: ['a b']", &[":3: skills[0]: a capability must match"]),
        ("agent: a\nbrain: {echo: {}}\nskills: [x, {id: x}]", &[":3: skills[1]: x is there twice"]),
        ("agent: a\nbrain: {exec: []}", &[":2: brain.exec: names no command"]),
        ("agent: a\nbrain: {exec: [./no/such.sh]}", &[":2: brain.exec: there is no ./no/such.sh"]),
        (
            "agent: a\nbrain: {exec: [./Cargo.toml]}",
            &[":2: brain.exec: ./Cargo.toml may not be executed; chmod +x lets it"],
        ),
        (
            "agent: a\nbrain: {exec: [no-such-command]}",
            &[
                ":2: brain.exec: there is no command no-such-command in PATH=/",
                "is named as ./no-such-command",
            ],
        ),
        (
            "agent: a\nbrain: {exec: [sh]}\nenv: {PATH: /no/such:/none}",
            &[":2: brain.exec: there is no command sh in PATH=/no/such:/none"],
        ),
        (
            "agent: a\nbrain: {exec: [sh], user: no-such-user}",
            &[":2: brain.user: there is no user no-such-user"],
        ),
        ("agent: a\nbrain: {exec: [sh], user: root}", &[":2: brain.user: root is root", "name another user"]),
        ("agent: a\nbrain: {exec: [sh], user: '0:0'}", &[":2: brain.user: 0:0 is root"]),
        ("agents: []", &["team.yaml:1: agents: lists no agent"]),
        ("agent: a\nbrain: {scripted: no.yaml}", &[":2: brain.scripted: there is no no.yaml"]),
        ("agent: a\nbrain: {scripted: /}", &[":2: brain.scripted: / is a directory, and must be a file"]),
        ("agent: a\nbrain: {exec: [/bin/]}", &[":2: brain.exec: /bin is a directory, and must be a file"]),
        ("agent: a\nbrain: {scripted: /dev/null}", &[":2: brain.scripted: /dev/null is no file"]),
        (
            "mesh: {limits: {ackMs: 5}}\nagent: a\nbrain: {echo: {}}",
            &["team.yaml:2: agent: one agent and `mesh` can't be said in one document", "`agents`", "`---`"],
        ),
        (
            "agent: a\nbrain: {echo: {}}\nagents: []",
            &["team.yaml:1: agent: one agent and `agents` can't be said in one document"],
        ),
        ("agent: a\nbrain: {exec: [x]}\ncwd: /no/such", &[":3: cwd: there is no directory /no/such"]),
        (
            "agent: ${NO_SUCH_V}\nbrain: {echo: {}}",
            &["team.yaml:1: needs the environment variable NO_SUCH_V"],
        ),
        ("agent: a\nbrain: {exec: ['${NO_SUCH_V}']}", &["team.yaml:2: ", "NO_SUCH_V, which is not set"]),
        (
            "agents:\n- {agent: a, brain: {echo: {}}}\n- {agent: a, brain: {echo: {}}}",
            &["team.yaml:3: agents[1].agent: a is taken, see team.yaml:2"],
        ),
        (
            "agents:\n- {agent: a, brain: {echo: {}}}\n- {agent: A, brain: {echo: {}}}",
            &["team.yaml:3: agents[1].agent: A is taken, see team.yaml:2"],
        ),
        ("agent: a\nagent: b", &["team.yaml:2: names agent twice"]),
        ("agent: [", &["team.yaml:", "is no YAML"]),
        ("", &["team.yaml: describes no agent"]),
        ("mesh: {auction: {rounds: 0}}\nagents: []", &["mesh.auction.rounds: must be at least 1"]),
        ("mesh: {registry: {leaseMs: 5}}\nagents: []", &["mesh.registry.leaseMs: must be more than twice"]),
    ] {
        let fault = faults(text);
        for part in parts {
            assert!(fault.contains(part), "{text}\n--- says\n{fault}\n--- without\n{part}");
        }
    }
}

#[test]
fn an_agent_and_the_mesh_may_be_separate_documents() {
    let text = "mesh: {limits: {ackMs: 5}}\n---\nagent: a\nbrain: {echo: {}}";
    let team = Team::parse("team.yaml", text, None).unwrap();
    assert_eq!((team.agents[0].id.as_str(), team.mesh.limits.ack_ms), ("a", 5));
    let fault = faults(&text.replace("\n---", ""));
    assert_eq!(fault.lines().filter(|line| line.contains("team.yaml:")).count(), 1, "{fault}");
}

#[test]
fn no_agent_may_have_a_services_name() {
    let fault = faults("agent: registry\nbrain: {echo: {}}\n");
    assert!(fault.contains("registry is a service's name"), "{fault}");
}

#[test]
fn all_faults_of_a_file_are_reported_together() {
    let fault = faults("agents:\n- agent: a/b\n  brain: {echo: {}}\n- {agent: c, brain: {scripted: gone}}\n");
    assert_eq!(fault.lines().count(), 2, "{fault}");
    let fault = faults("agent: a\nbrian: 1\nskils: 2");
    assert_eq!(fault.lines().count(), 2, "{fault}");
}

#[test]
fn a_missing_file_is_reported_by_name() {
    let fault = Team::load(&[PathBuf::from("/no/such.yaml")], TimingPreset::Default).unwrap_err().to_string();
    assert!(fault.starts_with("/no/such.yaml: cannot be read: No such file"), "{fault}");
}

#[test]
fn no_file_content_causes_a_panic() {
    for text in
        ["- 1", "5", "{}", "agents: 5", "agents: [5]", "mesh: 5", "? [a]\n: b", "a: &x [*x]", "\0", "{{{{"]
    {
        assert_ne!(faults(text), "no fault", "{text:?}");
    }
}

#[test]
fn the_settings_of_the_mesh_are_those_of_its_profile_with_what_is_given() {
    let mesh = |text: &str| {
        Team::parse("team.yaml", text, None).map(|team| team.mesh).map_err(|bad| bad.to_string())
    };
    let given = "mesh:\n  profile: fast\n  limits: { ackMs: 5, maxHops: }\n  auction: { strategy: fastest, weights: { match: 1 } }\n  registry: { leaseMs: 9000 }\n";
    let mut expected = MeshConfig::of(TimingPreset::Fast);
    (expected.limits.ack_ms, expected.registry.lease_ms) = (5, 9000);
    expected.auction.strategy = patterns::contract_net::Strategy::Fastest;
    expected.auction.weights.fit = 1.0;
    assert_eq!(mesh(given), Ok(expected));
    for (text, expected) in [
        (
            "mesh:\n  limits:\n    maxHops: 3\n    ackMs: soon\n",
            "team.yaml:4: mesh.limits.ackMs: invalid type",
        ),
        (
            "mesh:\n  auction:\n    weights:\n      eta: x\n",
            "team.yaml:4: mesh.auction.weights.eta: invalid type",
        ),
        ("mesh:\n  profile: slow\n", "team.yaml:2: mesh.profile: unknown variant `slow`"),
        ("mesh:\n  outside:\n    allow: [x]\n", "team.yaml:3: mesh.outside.allow[0]: \"x\" names no"),
        ("mesh:\n  approvers: [a b]\n", "team.yaml:2: mesh.approvers[0]: an agent id must match"),
        ("mesh: { registry: { retryMs: 5 } }\n", "mesh.registry.retryMs: unknown key; there are flapCalmMs,"),
    ] {
        let fault = mesh(text).unwrap_err();
        assert!(fault.contains(expected), "{fault}");
    }
}

#[test]
fn an_agent_takes_the_media_types_that_are_given_or_that_its_brain_sees() {
    let modes = |brain: &str, a2a: &str| {
        let team = Team::parse("team.yaml", &format!("agent: a\nbrain: {brain}\n{a2a}"), None).unwrap();
        team.agents[0].settings.a2a.input_modes.join(" ")
    };
    let all = AgentSettings::default().a2a.input_modes.join(" ");
    let text = "text/plain text/* application/json application/octet-stream audio/* video/*";
    let llm = "{ llm: { model: ollama/unknown } }";
    for (brain, a2a, expected) in [
        ("{ echo: {} }", "", all.as_str()),
        ("{ echo: {} }", "a2a: { inputModes: [] }", &all),
        (llm, "", text),
        (llm, "a2a: { direct: true }", text),
        (llm, "a2a: { inputModes: [] }", text),
        (llm, "a2a: { inputModes: , streaming: }", text),
        ("{ a2a: { card: 'https://x.example', bounds: { polls: } } }", "", &all),
        (llm, "a2a: { inputModes: [image/png] }", "image/png"),
    ] {
        assert_eq!(modes(brain, a2a), expected, "{brain} {a2a}");
    }
}

#[test]
fn the_committed_schema_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/config/agent.schema.json");
    let committed = std::fs::read_to_string(path).unwrap_or_default();
    let current = serde_json::to_string_pretty(&schema()).unwrap() + "\n";
    assert!(committed == current, "run: mesh validate --schema > deploy/config/agent.schema.json");
}

#[test]
fn a_url_with_a_name_or_a_password_is_refused_and_not_repeated() {
    for (key, text) in [
        ("brain.a2a.card", "agent: a\nbrain: { a2a: { card: 'https://me:s3cret@host/card' } }\n"),
        (
            "a2a.provider.url",
            "agent: a\nbrain: { echo: {} }\na2a: { provider: { organization: o, url: 'https://me:s3cret@host' } }\n",
        ),
        (
            "a2a.documentationUrl",
            "agent: a\nbrain: { echo: {} }\na2a: { documentationUrl: 'https://s3cret@host' }\n",
        ),
        ("a2a.iconUrl", "agent: a\nbrain: { echo: {} }\na2a: { iconUrl: 'https://:s3cret@host/i.png' }\n"),
    ] {
        let message = faults(text);
        let is_named = message.contains(&format!("{key}: must not carry a name or a password"));
        assert!(is_named && !message.contains("s3cret"), "{message}");
    }
}

#[test]
fn a_service_that_may_not_be_called_is_a_fault_with_one_remedy() {
    for url in ["http://127.0.0.1:9000/turns", "http://localhost:9000/turns", "http://10.0.0.1/turns"] {
        for (key, brain) in [("brain.http.url", "http: { url"), ("brain.a2a.card", "a2a: { card")] {
            let agent = format!("agent: a\nbrain: {{ {brain}: '{url}' }} }}\n");
            let message = faults(&agent);
            assert!(message.contains(":2: ") && message.contains(&format!("{key}: ")), "{message}");
            assert_eq!(message.matches("outside").count(), 1, "{message}");
            // Another file of the team may allow it.
            let nets = "127.0.0.0/8, 10.0.0.0/8";
            let allowed = format!("{agent}---\nmesh: {{ outside: {{ allow: [{nets}] }} }}\n");
            assert_eq!(faults(&allowed), "no fault");
        }
    }
    assert_eq!(faults("agent: a\nbrain: { http: { url: 'https://brain.example/turns' } }\n"), "no fault");
}

#[test]
fn a_program_beside_a_bare_file_name_is_found_from_the_private_directory_of_its_user() {
    // The tests run in the directory of the crate.
    let text = "agent: a\nbrain: {exec: [../.ci/run], user: '65533'}";
    let team = Team::parse("team.yaml", text, None).unwrap();
    let BrainConfig::Exec { command, dir, .. } = &team.agents[0].brain else { panic!("exec") };
    assert!(command[0].starts_with('/') && command[0].ends_with("/.ci/run"), "{command:?}");
    assert_eq!(*dir, None, "its private directory");
}

#[test]
fn the_message_about_kinds_of_brains_names_every_kind() {
    let message = faults("agents: [{agent: a, brain: {}}]");
    let kinds = schema::of::<file::BrainFile>()["oneOf"].as_array().unwrap().clone();
    let kinds: Vec<_> = kinds.iter().flat_map(|kind| kind["required"].as_array().unwrap()).collect();
    assert!(kinds.len() >= 4, "{kinds:?}");
    for kind in kinds.iter().filter_map(|kind| kind.as_str()) {
        assert!(message.split([' ', ',']).any(|word| word == kind), "{kind}: {message}");
    }
}

#[test]
fn a_credential_proves_one_user_and_is_listed_once() {
    let callers = |callers: &str| faults(&format!("mesh: {{callers: [{callers}]}}"));
    let alice = "{user: alice, apiKey: a-key-of-16-bytes}";
    assert_eq!(callers(alice), "no fault");
    for other in ["{user: bob, apiKey: a-key-of-16-bytes}", "{user: bob, bearer: a-key-of-16-bytes}"] {
        let fault = callers(&format!("{alice}, {other}"));
        assert!(fault.contains("mesh.callers: alice and bob have the same credential"), "{fault}");
        assert!(!fault.contains("a-key-of"), "{fault}");
    }
    let fault = callers(&format!("{alice}, {alice}"));
    assert!(fault.contains("mesh.callers: a credential of alice is listed twice"), "{fault}");
    let with_another = format!("{alice}, {{user: alice, bearer: a-token-of-16-bytes}}");
    assert_eq!(callers(&with_another), "no fault", "a user may have several credentials");
}

#[test]
fn a_fault_of_a_script_or_a_path_is_one_line() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("script.yaml"), "turns:\n  - { wen: {}, end: hang }\n").unwrap();
    for (brain, expected) in [("scripted: script.yaml", "wen"), ("exec: [./no.sh]", "there is no ")] {
        let text = format!("agent: a\nbrain: {{ {brain} }}");
        let fault = Team::parse("team.yaml", &text, Some(dir.path())).unwrap_err().to_string();
        assert!(fault.lines().count() == 1 && fault.contains(expected), "{fault}");
        assert!(!fault.contains("/./") && !fault.contains("could not be started"), "{fault}");
    }
}

#[test]
fn instructions_are_texts_and_files_and_have_a_limit() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("AGENTS.md"), "From the file.\n").unwrap();
    std::fs::write(dir.path().join("large.md"), "x".repeat(300_000)).unwrap();
    let load = |more: &str| {
        let text = format!("agent: a\nbrain: {{ llm: {{ model: ollama/x, {more} }} }}");
        let team = Team::parse("team.yaml", &text, Some(dir.path())).map_err(|errors| errors.to_string())?;
        match &team.agents[0].brain {
            BrainConfig::Llm(llm) => Ok::<_, String>((llm.instructions.clone(), llm.tools.len())),
            other => panic!("{other:?}"),
        }
    };
    let given = |text: &str| Ok((text.to_owned(), 0));
    assert_eq!(load("instructions: Be brief."), given("Be brief."));
    assert_eq!(load("instructions: AGENTS.md"), given("From the file.\n"));
    assert_eq!(load("instructions: [AGENTS.md, Be brief.]"), given("From the file.\n\nBe brief."));
    for (more, expected) in [
        ("instructions: [AGENTS.md, none.md]", "team.yaml:2: brain.llm.instructions[1]: "),
        (
            "instructions: large.md",
            "brain.llm.instructions: are 300000 bytes, and at most 262144 are allowed",
        ),
        ("instructions: { file: x }", "brain.llm.instructions: invalid type: map, expected a string"),
        ("skillsFolder: none", "team.yaml:2: brain.llm.skillsFolder: "),
    ] {
        let fault = load(more).unwrap_err();
        assert!(fault.contains(expected), "{fault}");
    }
    std::fs::create_dir_all(dir.path().join("skills/tea")).unwrap();
    let skill = dir.path().join("skills/tea/SKILL.md");
    std::fs::write(&skill, "---\nname: coffee\ndescription: d\n---\n").unwrap();
    let fault = load("skillsFolder: skills").unwrap_err();
    assert!(fault.contains("skills/tea/SKILL.md has the name \"coffee\""), "{fault}");
    std::fs::write(&skill, "---\nname: tea\ndescription: Makes tea.\n---\n").unwrap();
    let (instructions, tools) = load("instructions: Be brief., skillsFolder: skills").unwrap();
    assert!(
        instructions.starts_with("Be brief.\n\nSkills are") && instructions.ends_with("- tea: Makes tea.")
    );
    assert_eq!(tools, 1);
}

#[test]
fn a_quota_for_a_capability_that_the_agent_lacks_is_a_fault() {
    let quota = |skills: &str, capability: &str| {
        let quota = format!("{{capability: {capability}, per: day, tasks: 1}}");
        faults(&format!("agent: a\nskills: {skills}\nbrain: {{echo: {{}}}}\nquotas: [{quota}]\n"))
    };
    let fault = quota("[{id: review, tags: [rust]}]", "reveiw");
    assert!(fault.contains("quotas[0].capability") && fault.contains("did you mean review?"), "{fault}");
    for capability in ["review", "rust", "session"] {
        assert_eq!(quota("[{id: review, tags: [rust]}]", capability), "no fault", "{capability}");
    }
    assert_eq!(quota("[]", "anything"), "no fault", "a foreign agent says itself what it can do");
}
