// Live parts of the console. Text from the server is only ever set as text, never as markup.
"use strict";
(() => {
  const page = document.body.dataset.page;
  for (const link of document.querySelectorAll("[data-nav]")) {
    if (link.dataset.nav === page) link.setAttribute("aria-current", "page");
  }

  const element = (name, text, className) => {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    if (className) made.className = className;
    return made;
  };

  const bytes = (value) => {
    const units = ["B", "kB", "MB", "GB", "TB"];
    let at = 0;
    while (value >= 1000 && at < units.length - 1) { value /= 1000; at += 1; }
    return `${value.toFixed(value < 10 && at > 0 ? 1 : 0)} ${units[at]}`;
  };
  const number = (value) => value >= 100 ? value.toFixed(0) : value.toFixed(value >= 10 ? 1 : 2).replace(/\.?0+$/, "");
  const shown = (value, unit) => {
    if (value === null || value === undefined || Number.isNaN(value)) return "–";
    if (unit === "bytes") return bytes(value);
    if (unit === "percent") return `${number(value)} %`;
    if (unit === "ms") return `${number(value)} ms`;
    return number(value);
  };
  const duration = (seconds) => {
    if (seconds < 120) return `${seconds} s`;
    if (seconds < 7200) return `${Math.floor(seconds / 60)} min`;
    if (seconds < 172800) return `${Math.floor(seconds / 3600)} h`;
    return `${Math.floor(seconds / 86400)} days`;
  };

  const listen = (url, take) => {
    const source = new EventSource(url);
    const lost = document.getElementById("connection");
    source.onopen = () => { lost.hidden = true; };
    source.onerror = () => { lost.hidden = false; };
    source.onmessage = (event) => take(JSON.parse(event.data));
    return source;
  };

  const now = () => {
    const names = {
      requests: "all", http1: "HTTP/1", http2: "HTTP/2", http3: "HTTP/3",
      status_2xx: "2xx", status_3xx: "3xx", status_4xx: "4xx", status_5xx: "5xx",
      latency_p50_ms: "p50", latency_p90_ms: "p90", latency_p99_ms: "p99",
      bytes_in: "received", bytes_out: "sent", connections: "connections",
      requests_open: "requests", page_cache_hits: "hits", page_cache_stale: "stale",
      page_cache_misses: "misses", page_cache_passes: "passes", cpu_percent: "CPU",
      memory_bytes: "memory",
    };
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const colors = () => dark.matches ? ["#7cb7ff", "#7fd79a", "#ffc46b", "#ff9d94"] : ["#0a5fb4", "#1a7f37", "#9a6200", "#b3261e"];
    let range = "15m";
    let data = { at: [], series: {} };
    let charts = [];

    const draw = () => {
      for (const chart of charts) chart.plot.destroy();
      const style = getComputedStyle(document.body);
      charts = [...document.querySelectorAll(".chart")].map((holder) => {
        const series = holder.dataset.series.split(" ");
        const unit = holder.dataset.unit;
        const axis = { stroke: style.color, grid: { stroke: style.getPropertyValue("--line"), width: 1 } };
        const options = {
          width: holder.clientWidth, height: 200,
          series: [{ label: "time" }].concat(series.map((name, at) => ({
            label: names[name], stroke: colors()[at], width: 1.5,
            value: (_, value) => shown(value, unit),
          }))),
          axes: [axis, Object.assign({ size: 62, values: (_, values) => values.map((value) => shown(value, unit)) }, axis)],
          scales: { y: { range: (_, low, high) => [0, high > 0 ? high * 1.05 : 1] } },
        };
        return { plot: new uPlot(options, columns(series), holder), series, holder };
      });
    };
    const columns = (series) => [data.at].concat(series.map((name) => data.series[name] || data.at.map(() => null)));
    const update = () => {
      for (const { plot, series } of charts) plot.setData(columns(series));
    };
    const load = async () => {
      const answer = await fetch(`/api/v1/live?range=${range}`);
      if (!answer.ok) return;
      data = await answer.json();
      draw();
    };

    const figures = (sample) => {
      const hits = sample.page_cache_hits + sample.page_cache_stale;
      const all = hits + sample.page_cache_misses + sample.page_cache_passes;
      sample.hit_rate = all > 0 ? 100 * hits / all : null;
      for (const tile of document.querySelectorAll("[data-figure]")) {
        tile.textContent = shown(sample[tile.dataset.figure], tile.dataset.unit);
      }
    };
    const append = (sample) => {
      if (range !== "15m" || (data.at.length && sample.at <= data.at[data.at.length - 1])) return;
      data.at.push(sample.at);
      for (const name of Object.keys(data.series)) data.series[name].push(sample[name] ?? null);
      if (data.at.length > 900) {
        data.at.shift();
        for (const column of Object.values(data.series)) column.shift();
      }
      update();
    };

    const table = (holder, heads, rows) => {
      if (!rows.length) { holder.replaceChildren(element("p", "None.", "hint")); return; }
      const made = element("table");
      const head = made.createTHead().insertRow();
      for (const text of heads) { const cell = element("th", text); cell.scope = "col"; head.append(cell); }
      const body = made.createTBody();
      for (const row of rows) {
        const line = body.insertRow();
        for (const [text, className] of row) line.append(element("td", text, className));
      }
      const scroll = element("div", undefined, "scroll");
      scroll.tabIndex = 0;
      scroll.append(made);
      holder.replaceChildren(scroll);
    };
    const health = (report) => {
      for (const place of document.querySelectorAll("[data-health]")) {
        const value = report[place.dataset.health];
        place.textContent = {
          uptime_s: () => duration(value),
          last_reload: () => value ? `${value.ok ? "done" : "refused"}, ${duration(report.now - value.at_unix_s)} ago` : "none",
          bans: () => String(value),
        }[place.dataset.health]();
      }
      const members = report.upstreams.flatMap((upstream) => upstream.members.map((member) => [
        [upstream.name], [member.address], [member.state, `state-${member.state}`],
        [String(member.busy), "number"], [String(member.failures), "number"],
      ]));
      table(document.getElementById("upstreams"), ["Upstream", "Server", "State", "Busy", "Failures"], members);
      const certificates = report.certificates.map((one) => [
        [one.names.join(", ")], [`${one.days_left} days`, one.days_left < 7 ? "number s5" : "number"],
      ]);
      table(document.getElementById("certificates"), ["Names", "Left"], certificates);
      const nodes = (report.cluster?.nodes ?? []).map((node) => [
        [node.name + (node.is_this ? " (this one)" : "")], [node.state, node.state === "alive" ? "" : "s5"],
        [node.is_in_sync ? "yes" : "no", node.is_in_sync ? "" : "s5"],
        [node.lag_ms === null ? "–" : `${number(node.lag_ms / 1000)} s`, "number"], [String(node.queue_records), "number"],
      ]);
      document.getElementById("cluster-part").hidden = !report.cluster;
      table(document.getElementById("cluster"), ["Server", "State", "In sync", "Lag", "Queue"], nodes);
    };

    const tops = async () => {
      const answer = await fetch("/api/v1/top").catch(() => undefined);
      if (answer?.ok) {
        const found = await answer.json();
        for (const holder of document.querySelectorAll("[data-top]")) {
          const name = holder.dataset.top;
          const [heads, cells] = {
            prefixes: [["Hits"], (row) => [[shown(100 * row.hits / (row.hits + row.misses + row.passes), "percent"), "number"]]],
            passes: [["Cause", "Rule", "What would help"],
              (row) => [[[row.cause, ...(row.fields ?? [])].join(" · "), "long"], [row.rule ?? "", "long"], [row.help ?? "", "long"]]],
          }[name] ?? [[], () => []];
          const rows = (found[name] ?? []).map((row) => [[row.text, "long"], [String(row.count), "number"], ...cells(row)]);
          table(holder, [holder.dataset.heads, "Requests", ...heads], rows);
          const scroll = holder.querySelector(".scroll");
          if (scroll) { scroll.setAttribute("role", "region"); scroll.setAttribute("aria-label", name.replaceAll("_", " ")); }
        }
        const part = found.is_sampled ? " There are so many requests that a part of them is counted." : "";
        document.getElementById("tops-hint").textContent = `${found.requests ?? 0} requests counted while this page is open.${part}`;
        document.body.dataset.tops = String(found.requests ?? 0);
      }
      setTimeout(tops, 3000);
    };
    tops();
    for (const choice of document.querySelectorAll("[name=range]")) {
      choice.addEventListener("change", () => { range = choice.value; load(); });
    }
    let width = document.documentElement.clientWidth;
    addEventListener("resize", () => {
      if (width === document.documentElement.clientWidth) return;
      width = document.documentElement.clientWidth;
      draw();
    });
    dark.addEventListener("change", draw);
    load();
    listen("/api/v1/live/events", (event) => {
      if (event.sample) { figures(event.sample); append(event.sample); }
      if (event.health) health(event.health);
      document.body.dataset.live = "yes";
    });
  };

  const requests = () => {
    const body = document.querySelector("#tail tbody");
    if (!body) return;
    const kept = 200;
    const pause = document.getElementById("pause");
    let missed = 0;
    pause.addEventListener("click", () => {
      const pressed = pause.getAttribute("aria-pressed") !== "true";
      pause.setAttribute("aria-pressed", String(pressed));
    });
    const add = (line) => {
      const row = element("tr");
      const time = new Date(line.at_ms).toLocaleTimeString();
      const url = `${line.secure ? "https" : "http"}://${line.host}${line.target}`;
      const status = element("td", String(line.status), `s${Math.floor(line.status / 100)}`);
      const request = element("td", `${line.method} ${url} ${line.protocol}`);
      request.title = request.textContent;
      const agent = element("td", [line.user_agent, line.referrer].filter(Boolean).join(" · "));
      agent.title = agent.textContent;
      const query = new URLSearchParams({ method: line.method, url });
      if (line.user_agent) query.append("header", `User-Agent: ${line.user_agent}`);
      if (line.referrer) query.append("header", `Referer: ${line.referrer}`);
      const why = element("a", "Why");
      why.href = `/requests/why?${query}`;
      const last = element("td");
      // Owners have no right to ask.
      if (document.body.dataset.owner === undefined) last.append(why);
      row.append(
        element("td", time), status, request, element("td", line.client),
        element("td", number(line.duration_us / 1000), "number"), element("td", String(line.bytes), "number"),
        element("td", line.cache), agent, last,
      );
      body.prepend(row);
    };
    listen(`/api/v1/requests/events${location.search}`, (event) => {
      document.body.dataset.live = "yes";
      missed += event.missed;
      document.getElementById("missed").textContent = missed ? `${missed} more were too fast to show.` : "";
      if (pause.getAttribute("aria-pressed") === "true") return;
      for (const line of event.lines) add(line);
      while (body.rows.length > kept) body.deleteRow(-1);
    });
  };

  const warm = () => {
    const holder = document.getElementById("warm");
    if (!holder) return;
    const job = Number(holder.dataset.job);
    const body = holder.querySelector("tbody");
    const state = document.getElementById("warm-state");
    const button = document.getElementById("warm-stop");
    const kept = 500;
    let from = 0;
    const look = async () => {
      const answer = await fetch(`/api/v1/cache/warm?job=${job}&from=${from}`);
      const found = await answer.json();
      if (!answer.ok) { state.textContent = found.error; button.hidden = true; return; }
      const done = found.fetched + found.already_there + found.not_cacheable + found.failed;
      state.textContent = `${found.is_over ? "Done" : "Fetching"}: ${found.fetched} fetched, ${found.already_there} were there, ${found.not_cacheable} cannot be cached, ${found.failed} failed, of ${found.known}.`;
      const progress = document.getElementById("warm-progress");
      progress.max = Math.max(1, found.known);
      progress.value = done;
      for (const line of found.lines) {
        const row = body.insertRow();
        for (const text of [line.url, line.outcome, line.text ?? ""]) row.append(element("td", text));
      }
      while (body.rows.length > kept) body.deleteRow(0);
      from = found.next;
      if (found.is_over) { button.hidden = true; document.body.dataset.warmed = "yes"; return; }
      setTimeout(look, 1000);
    };
    button.addEventListener("click", () => fetch("/api/v1/cache/warm/stop", { method: "POST", body: JSON.stringify({ job }) }));
    look();
  };
  warm();

  for (const place of document.querySelectorAll("[data-countdown]")) {
    let left = Number(place.dataset.countdown);
    const tick = setInterval(() => {
      left = Math.max(0, left - 1);
      place.textContent = String(left);
      if (left === 0) { clearInterval(tick); location.assign("/configuration"); }
    }, 1000);
  }

  // Passkeys: what the authenticator says goes into the form, as base64url.
  const decode = (text) => Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (one) => one.charCodeAt(0));
  const encode = (buffer) => btoa(String.fromCharCode(...new Uint8Array(buffer)))
    .replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
  const passkey = async (form) => {
    const challenge = decode(form.dataset.challenge);
    if (form.dataset.passkey === "get") {
      return navigator.credentials.get({ publicKey: { challenge, userVerification: "required" } });
    }
    const name = form.dataset.user;
    return navigator.credentials.create({ publicKey: {
      challenge, rp: { name: "Saker" }, user: { id: new TextEncoder().encode(name), name, displayName: name },
      pubKeyCredParams: [{ type: "public-key", alg: -7 }, { type: "public-key", alg: -8 }],
      authenticatorSelection: { residentKey: "required", userVerification: "required" },
    } });
  };
  for (const form of document.querySelectorAll("[data-passkey]")) {
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      try {
        const { rawId, response } = await passkey(form);
        const data = response.authenticatorData ?? response.getAuthenticatorData();
        const values = {
          id: encode(rawId), challenge: form.dataset.challenge, client_data: encode(response.clientDataJSON),
          authenticator_data: encode(data), signature: response.signature ? encode(response.signature) : "",
          public_key: response.getPublicKey ? encode(response.getPublicKey()) : "",
        };
        for (const [name, value] of Object.entries(values)) {
          const input = element("input");
          input.type = "hidden";
          input.name = name;
          input.value = value;
          form.append(input);
        }
        form.submit();
      } catch (error) {
        form.querySelector("[role=status]").textContent = `The browser has no passkey: ${error.message}`;
      }
    });
  }

  if (page === "now") addEventListener("DOMContentLoaded", now);
  if (page === "requests") requests();
})();
