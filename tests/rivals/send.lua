-- A blocking SendMessage of a task that completes at once; each request is a message of its own.
local head = { ["content-type"] = "application/json", ["a2a-version"] = "1.0" }
local at, failed, shown = 0, 0, false

function setup(thread) thread:set("run", tostring(os.time())) end

function request()
  at = at + 1
  local body = '{"jsonrpc":"2.0","id":' .. at .. ',"method":"SendMessage","params":{"message":{"messageId":"m-' .. run .. "-" .. at ..
    '","role":"ROLE_USER","parts":[{"text":"What was said is given back."}]}}}'
  return wrk.format("POST", "/a2a/rpc", head, body)
end

-- Only a finished task counts.
function response(status, headers, body)
  if status ~= 200 or not string.find(body, "TASK_STATE_COMPLETED", 1, true) then
    if not shown then io.stderr:write("not completed: ", status, " ", body, "\n") end
    shown = true
    error("a request was not answered with a completed task")
  end
end

function done(summary, latency)
  io.write(string.format("RESULT %.0f %.2f %.2f %d\n", summary.requests / summary.duration * 1e6,
    latency:percentile(50) / 1000, latency:percentile(99) / 1000,
    summary.errors.connect + summary.errors.read + summary.errors.write + summary.errors.status + summary.errors.timeout))
end
