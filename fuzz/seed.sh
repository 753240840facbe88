#!/usr/bin/env bash
# Fills fuzz/corpus with first inputs: the lines of fuzz/seeds, the cases of tests/conformance/http1, and the configurations there are.
# A line of fuzz/seeds/TARGET.txt is one input, written as the conformance cases are: \r \n \t \0 \\ \xNN.
set -euo pipefail
cd "$(dirname "$0")"

# put TARGET NAME: standard input becomes an input of that target.
put() {
    mkdir -p "corpus/$1"
    cat >"corpus/$1/seed-$2"
}

# `\0` is a whole escape here, and the start of an octal number to printf.
unescaped() {
    printf '%b' "${1//\\0/\\x00}"
}

from_lines() {
    local file target number
    for file in seeds/*.txt; do
        target="$(basename "$file" .txt)"
        number=0
        while IFS= read -r line; do
            [[ -z "$line" || "$line" == '# '* ]] && continue
            number=$((number + 1))
            unescaped "$line" | put "$target" "$number"
        done <"$file"
    done
}

# Writes a case for the targets that look at heads, at connections, and (behind the first empty line) at chunked content.
# In front are the targets' knobs: how to cut, and whether limits are tight.
put_case() {
    local name="$1" sent="$2" knob
    printf -v knob '\\x%02x\\x00' "$(($3 % 64))"
    { unescaped "$knob\\x00"; unescaped "$sent"; } | put request_head "$name"
    { unescaped "$knob"; unescaped "$sent"; } | put http1_machine "$name"
    if [[ "$name" == chunked-* && "$sent" == *'\r\n\r\n'* ]]; then
        { unescaped "$knob\\x00"; unescaped "${sent#*\\r\\n\\r\\n}"; } | put chunked_body "$name"
    fi
}

# Cases that repeat a piece many times are about sizes, which a fuzzer is no good at.
from_conformance() {
    local file name sent number=0 skip
    for file in ../tests/conformance/http1/*.txt; do
        name="" sent="" skip=no
        while IFS= read -r line; do
            case "$line" in
            "case: "*)
                [[ -n "$name" && "$skip" == no ]] && put_case "$(basename "$file" .txt)-$name" "$sent" "$number"
                name="${line#case: }" sent="" skip=no number=$((number + 1))
                ;;
            "send: "*) sent+="${line#send: }" ;;
            "send*"*) skip=yes ;;
            esac
        done <"$file"
        [[ -n "$name" && "$skip" == no ]] && put_case "$(basename "$file" .txt)-$name" "$sent" "$number"
    done
}

from_configurations() {
    local file
    for file in ../docs/saker.example.toml ../tests/config/*.toml; do
        { unescaped '\0\0\0\0'; cat "$file"; } | put toml "$(basename "$file" .toml)"
    done
}

from_apache_configurations() {
    local file
    for file in ../tests/config/apache/*.conf; do
        put apache_config "$(basename "$file" .conf)" <"$file"
    done
    for file in ../tests/config/apache/*.htaccess; do
        { unescaped '\x1f'; cat "$file"; } | put htaccess "$(basename "$file" .htaccess)"
    done
}

from_lines
from_conformance
from_configurations
from_apache_configurations
