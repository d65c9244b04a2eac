#!/bin/sh
# Turns of the brain without a mesh: `sh test.sh`.
set -u
cd "$(dirname "$0")"
failed=0

# turn PROMPT TEXT...: the brain's lines for PROMPT contain each TEXT.
turn() {
  prompt=$1
  shift
  lines=$(printf '%s\n' "$prompt" | sh brain.sh)
  for text; do
    case $lines in
    *"$text"*) echo "ok: $text" ;;
    *) echo "FAILED: no $text in: $lines"; failed=1 ;;
    esac
  done
}

turn '{"turn":1,"task":{"taskId":"t-1","description":"Count"}}' '"type":"question"'
turn '{"turn":1,"task":{"taskId":"t-1","description":"Count: say \"hi\""}}' \
  '"type":"delegate"' '"description":"say \"hi\""'
turn '{"turn":3,"task":{"taskId":"t-1","description":"Count"},"answers":[{"id":"text","ok":true,"text":"one\ntwo"},{"id":"check","ok":true,"text":"no faults"}]}' \
  '"text":"# 2 words\n\nno faults\n"' '{"type":"done","message":"2 words"}'
exit $failed
