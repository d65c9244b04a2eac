#!/bin/sh
# Counts the words of a text: one line of JSON in, lines of JSON out. Texts keep their JSON form (\n, \"), so they go from the
# prompt into a line unchanged. For numbers, lists and `input` use jq.
set -eu
IFS= read -r prompt

# The text $2 of the object that begins with $1, a regular expression; nothing if there is none.
text_of() {
  printf '%s\n' "$prompt" | sed -nE "s/.*$1[^{}]*\"$2\":\"(([^\"\\\\]|\\\\.)*)\".*/\\1/p"
}

case $prompt in *'"help":{'*) # another agent asks for help
  echo '{"type":"done","message":"I count words: wc -w."}'
  exit ;;
esac

text=$(text_of '"task":\{' description | sed -nE 's/^[^:]*: *//p')
if [ -z "$text" ]; then # asks a person; `mesh answer` answers
  text=$(text_of '\{"id":"text","ok":true' text)
fi
if [ -z "$text" ]; then
  echo '{"type":"question","id":"text","text":"Which text shall I count?"}'
  exit # the next turn has the answer
fi

case $prompt in
*'{"id":"check","ok":'*) # the other agent has answered
  proof=$(text_of '\{"id":"check","ok":[a-z]*' text)
  count=$(($(printf '%s\n' "$text" | sed -E 's/\\[nrt]/ /g' | wc -w)))
  printf '{"type":"artifact","name":"report.md","mediaType":"text/markdown","text":"# %s words\\n\\n%s\\n"}\n' "$count" "$proof"
  printf '{"type":"done","message":"%s words"}\n' "$count" ;;
*)
  echo '{"type":"status","message":"asking for a check"}'
  printf '{"type":"delegate","id":"check","to":"capability:proofread","description":"%s"}\n' "$text" ;;
esac
