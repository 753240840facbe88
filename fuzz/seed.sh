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

# Films are made where ffmpeg is; the four bytes before them say from when to when.
from_films() {
    command -v ffmpeg >/dev/null || return 0
    local films file
    films="$(mktemp -d)"
    ffmpeg -v error -f lavfi -i testsrc=size=16x16:rate=5:duration=2 -f lavfi -i sine=duration=2:sample_rate=8000 \
        -c:v libx264 -pix_fmt yuv420p -g 4 -bf 1 -c:a aac -b:a 8k "$films/a.mp4"
    ffmpeg -v error -i "$films/a.mp4" -c copy -movflags +faststart "$films/b.mp4"
    ffmpeg -v error -i "$films/a.mp4" -c copy -flvflags add_keyframe_index "$films/c.flv"
    ffmpeg -v error -f lavfi -i sine=duration=0.1:sample_rate=8000 -c:a pcm_s16le "$films/d.mov"
    for file in "$films"/*; do
        { unescaped '\0\0\0\0'; cat "$file"; } | put media "$(basename "$file")"
        { unescaped '\x03\x20\x06\0'; cat "$file"; } | put media "$(basename "$file")-part"
    done
    rm -r "$films"
}

from_lines
from_films
from_conformance
from_configurations
from_apache_configurations
