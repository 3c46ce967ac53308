# A node that floods: it sends a new segment on every port on which it has not just arrived. For any awk.
# The engine writes compact JSON, one line for each request; this program takes from it only what it needs.

function number(text, name) { return match(text, "\"" name "\":-?[0-9]+") ? substr(text, RSTART + length(name) + 3, RLENGTH - length(name) - 3) : "" }

function answer(step, segment, skip,    port, sends) {
    for (port = 0; port < degree; port++)
        if (!(port in skip)) sends = sends (sends == "" ? "" : ",") "{\"step\":" step ",\"port\":" port ",\"segment\":[" segment "]}"
    return sends
}

/"type":"init"/ {
    degree = number($0, "degree")
    rank = number($0, "rank")
    numbers = number($0, "numbers")
    all = ""
    if ($0 ~ /"targets":\[-1\]/)
        for (i = 0; i < numbers; i++) {
            segment = rank ",-1,0," i
            known[segment] = 1
            split("", nowhere)
            all = all (all == "" ? "" : ",") answer(i + 1, segment, nowhere)
        }
    print "{\"sends\":[" all "]}"
}

/"type":"step"/ {
    step = number($0, "step") + 1
    split("", ports)
    order = 0
    rest = $0
    while (match(rest, /"port":[0-9]+,"segments":\[\[[-0-9,\[\]]*\]\]/)) {
        arrival = substr(rest, RSTART, RLENGTH)
        rest = substr(rest, RSTART + RLENGTH)
        port = number(arrival, "port")
        sub(/.*"segments":\[\[/, "", arrival)
        sub(/\]\]$/, "", arrival)
        n = split(arrival, segments, /\],\[/)
        for (i = 1; i <= n; i++) {
            if (!(segments[i] in ports)) queue[++order] = segments[i]
            ports[segments[i]] = ports[segments[i]] " " port
        }
    }
    all = ""
    for (i = 1; i <= order; i++) {
        segment = queue[i]
        if (segment in known) continue
        known[segment] = 1
        split("", skip)
        n = split(ports[segment], came, " ")
        for (j = 1; j <= n; j++) skip[came[j]] = 1
        sends = answer(step, segment, skip)
        if (sends != "") all = all (all == "" ? "" : ",") sends
    }
    print "{\"sends\":[" all "]}"
}

{ fflush() }
