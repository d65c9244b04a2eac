read -r line
case $line in *'"text":"bad"'*) echo "it is bad"; exit 1;; esac
