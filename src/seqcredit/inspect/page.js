"use strict";
// Everything from data becomes text nodes; nothing is ever parsed as markup.
(() => {
  const ROW = 62, SPARE = 6, THOUSAND = 1000;
  const QUANTITIES = {
    rewards: { label: "Reward", sign: "r", signed: true, needs: "a reference",
      about: "r: what the token adds to the pay-off of the prefix." },
    q: { label: "Q", sign: "Q", signed: true, needs: "a critic and a reference",
      about: "Q of the token: what the critic expects from here to the end, this token's reward included." },
    value: { label: "Value", sign: "V", signed: true, needs: "a critic and a reference",
      about: "V: what the critic expects before the token is chosen, sum of pi (Q - tau log pi)." },
    advantage: { label: "Advantage", sign: "A", signed: true, needs: "a critic and a reference",
      about: "A = Q - tau log pi - V: how much better this token is than the policy's average." },
    entropy: { label: "Entropy", sign: "H", signed: false, needs: "nothing",
      about: "H: how undecided the policy was, in nats." },
    td: { label: "TD error", sign: "TD", signed: true, needs: "a critic and a reference",
      about: "TD error: reward and value of the next state, minus Q. Blue: better than the critic thought." },
    p: { label: "Probability", sign: "p", signed: false, needs: "nothing",
      about: "p: the probability that the policy gave to the token." },
  };
  const LISTS = {
    policy: "The policy pi",
    target: "The token-level target P_Q",
    oracle: "Exact Q*",
  };
  const $ = (id) => document.getElementById(id);
  const state = { data: null, order: [], at: 0, run: 0, token: 0, quantity: "rewards", hay: [] };

  // --- small helpers --------------------------------------------------------------------------------------------
  function make(tag, attributes = {}, ...children) {
    const node = document.createElement(tag);
    for (const [key, value] of Object.entries(attributes)) {
      if (value === null || value === undefined || value === false) continue;
      if (key === "class") node.className = value;
      else if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
      else node.setAttribute(key, value === true ? "" : value);
    }
    for (const child of children.flat(Infinity)) if (child !== null && child !== undefined) node.append(child);
    return node;
  }
  function draw(tag, attributes = {}, text) {
    const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    if (text !== undefined) node.textContent = text;
    return node;
  }
  function shown(value, digits = 2) {
    if (value === null || value === undefined || Number.isNaN(value)) return "–";
    const text = value.toFixed(digits);
    return Number(text) === 0 ? (0).toFixed(digits) : text.replace("-", "−");
  }
  const exact = (quantity, value) => (quantity !== "p" ? shown(value) : value < 0.0005 ? "<0.001" : shown(value, 3));
  const picture = (base64) => make("img", { src: `data:image/jpeg;base64,${base64}`, alt: "" });
  const word = (number) => state.data.words[number];
  const runClass = (run) => `run-${run % 4}`;
  const subject = () => state.data.subjects[state.order[state.at]];
  const credit = () => subject()?.credits[state.run];

  function number(one, quantity, t) {
    if (quantity === "p") return Math.exp(one.logp[t] / THOUSAND);
    return one[quantity] ? one[quantity][t] / THOUSAND : null;
  }
  const mean = (numbers) => numbers.reduce((sum, x) => sum + x, 0) / Math.max(1, numbers.length);
  const surprise = (one) => -mean(one.logp) / THOUSAND;
  const tdSize = (one) => (one.td ? mean(one.td.map(Math.abs)) / THOUSAND : null);

  // --- data -----------------------------------------------------------------------------------------------------
  async function unpack(id) {
    const text = atob($(id).textContent), bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return JSON.parse(await new Response(stream).text());
  }
  const scale = (quantity) => (quantity === "p" ? 1 : (state.data.scales[quantity] || THOUSAND) / THOUSAND);
  function available(quantity) {
    return subject()?.credits.some((one) => quantity === "p" || one[quantity]) ?? true;
  }

  // --- the list -------------------------------------------------------------------------------------------------
  const gain = (s) => s.credits.length > 1 && s.credits[0].bleu !== undefined ? s.credits[1].bleu - s.credits[0].bleu : null;
  const meanOf = (what) => (s) => {
    const known = s.credits.map(what).filter((x) => x !== null);
    return known.length ? mean(known) : null;
  };
  function sorts() {
    const runs = state.data.runs;
    const found = { data: ["the order of the data", null] };
    if (runs.length > 1) {
      found.gain = [`BLEU, ${runs[1].name} above ${runs[0].name}`, gain];
      found.loss = [`BLEU, ${runs[1].name} below ${runs[0].name}`, (s) => (gain(s) === null ? null : -gain(s))];
    }
    found.surprise = ["surprise, mean of −log p", meanOf(surprise)];
    if (runs.some((run) => run.critic)) found.td = ["TD error, mean size", meanOf(tdSize)];
    return found;
  }
  function text(i) {
    if (state.hay[i] === undefined) {
      const s = state.data.subjects[i];
      const said = s.credits.map((one) => one.words.slice(0, -1).map(word).join(" "));
      state.hay[i] = [s.source, ...s.references, ...said].join("\n").toLowerCase();
    }
    return state.hay[i];
  }
  function arrange(stay) {
    const held = stay === true ? state.order[state.at] : undefined;
    const wanted = $("search").value.trim().toLowerCase();
    const key = sorts()[$("sort").value]?.[1];
    const all = state.data.subjects.map((_, i) => i);
    state.order = wanted ? all.filter((i) => text(i).includes(wanted)) : all;
    if (key) {
      const keys = state.data.subjects.map((s) => key(s) ?? -Infinity);
      state.order.sort((a, b) => keys[b] - keys[a] || a - b);
    }
    const many = state.order.length, total = state.data.subjects.length;
    const noun = state.data.pictures ? "image" : "sentence";
    if (state.data.more) $("count").textContent = `${total} of ${total + state.data.more}, reading on`;
    else $("count").textContent = many === total ? `${total} ${noun}${total === 1 ? "" : "s"}` : `${many} of ${total}`;
    $("rows").style.height = `${many * ROW}px`;
    if (held === undefined) { $("list").scrollTop = 0; choose(0); } else { state.at = Math.max(0, state.order.indexOf(held)); rows(); }
  }
  function rows() {
    const list = $("list"), holder = $("rows");
    const first = Math.max(0, Math.floor(list.scrollTop / ROW) - SPARE);
    const last = Math.min(state.order.length, Math.ceil((list.scrollTop + list.clientHeight) / ROW) + SPARE);
    const made = [];
    for (let place = first; place < last; place++) {
      const index = state.order[place], s = state.data.subjects[index];
      const figures = s.credits.map((one, run) => one.bleu === undefined ? null : `${state.data.runs[run].name} ${one.bleu.toFixed(1)}`);
      const known = figures.filter((x) => x !== null);
      const row = make("div", { class: "row", role: "option", id: `row-${place}`, "aria-selected": String(place === state.at),
        "aria-setsize": state.order.length, "aria-posinset": place + 1, onclick: () => choose(place) },
        s.picture ? picture(s.picture) : null,
        make("p", {}, s.source),
        make("p", { class: "quiet" }, `${index + 1}${known.length ? " · BLEU " + known.join(", ") : ""}`));
      row.style.top = `${place * ROW}px`;
      made.push(row);
    }
    holder.replaceChildren(...made);
    if (state.order.length) list.setAttribute("aria-activedescendant", `row-${state.at}`);
    else list.removeAttribute("aria-activedescendant");
  }
  function choose(place) {
    state.at = Math.max(0, Math.min(place, state.order.length - 1));
    state.token = 0;
    const list = $("list"), top = state.at * ROW;
    if (top < list.scrollTop) list.scrollTop = top;
    if (top + ROW > list.scrollTop + list.clientHeight) list.scrollTop = top + ROW - list.clientHeight;
    rows();
    detail();
  }

  // --- the sentence ---------------------------------------------------------------------------------------------
  function detail() {
    const s = subject();
    for (const id of ["subject", "hypotheses", "token", "curve", "legend"]) $(id).replaceChildren();
    $("quantities").hidden = $("explain").hidden = !s;
    if (!s) {
      const empty = state.data.live && !state.data.subjects.length
        ? (state.data.pictures ? "Choose an image, write what it shows, and press Go." : "Type a sentence, with a reference if you have one, and press Go.")
        : "Nothing matches.";
      $("subject").append(make("p", { class: "quiet" }, empty));
      return;
    }
    const entries = [["Source", s.picture ? [picture(s.picture), s.source] : s.source, "source"]];
    s.references.forEach((text, i) => entries.push([i === 0 ? (s.references.length > 1 ? "References" : "Reference") : "", text, ""]));
    $("subject").append(make("dl", { class: "subject" }, entries.map(([name, what, kind]) => [make("dt", {}, name), make("dd", { class: kind }, what)])));
    if (!s.references.length) $("subject").append(make("p", { class: "note" }, "Without a reference only probability and entropy can be shown."));
    if (!available(state.quantity)) state.quantity = Object.keys(QUANTITIES).find(available);
    quantities();
    hypotheses();
    token();
    curve();
  }
  function quantities() {
    const q = QUANTITIES[state.quantity];
    for (const input of $("quantities").querySelectorAll("input")) {
      input.disabled = !available(input.value);
      input.checked = input.value === state.quantity;
    }
    const soft = state.quantity === "td" && state.data.runs[state.run].soft;
    $("explain").textContent = q.about + (soft ? " The critic is of soft Q-learning: its next value is the soft one." : "");
    const full = scale(state.quantity);
    $("legend").replaceChildren(q.signed ? shown(-full) : "0", make("i", { class: q.signed ? "signed" : "unsigned" }), shown(full));
  }
  function tint(node, value) {
    const share = value === null ? 0 : Math.max(-1, Math.min(1, value / scale(state.quantity)));
    node.style.setProperty("--hue", `var(--${share < 0 ? "minus" : "plus"})`);
    node.style.setProperty("--much", (0.72 * Math.abs(share)).toFixed(3));
  }
  function hypotheses() {
    const s = subject();
    $("hypotheses").replaceChildren(...s.credits.map((one, run) => card(one, run)));
  }
  function card(one, run) {
    const about = state.data.runs[run], mine = run === state.run;
    const figures = [];
    if (one.bleu !== undefined) figures.push(`BLEU ${one.bleu.toFixed(1)}`);
    figures.push(`surprise ${shown(surprise(one))}`);
    if (one.td) figures.push(`TD ${shown(tdSize(one))}`);
    if (one.scores) figures.push(`pay-off ${shown(one.scores[one.scores.length - 1] / THOUSAND)}`);
    if (one.edited) figures.push("edited");
    const tokens = one.words.map((w, t) => {
      const value = number(one, state.quantity, t), end = t === one.words.length - 1;
      const label = `${end ? "end of sentence" : word(w)}, ${QUANTITIES[state.quantity].label} ${shown(value)}`;
      const button = make("button", { type: "button", class: end ? "end" : "", "data-run": run, "data-token": t,
        tabindex: mine && t === state.token ? 0 : -1, "aria-pressed": String(mine && t === state.token), "aria-label": label,
        onclick: (event) => { event.stopPropagation(); select(run, t, true); },
        onmouseenter: () => tip(button, one, t), onmouseleave: hideTip }, end ? "end" : word(w));
      tint(button, value);
      return button;
    });
    const why = state.quantity !== "p" && !one[state.quantity]
      ? make("p", { class: "quiet why" }, about.critic ? "Not known without a reference." : `${about.name} has no critic: add --critic RUN to see this.`) : null;
    return make("article", { class: `card ${runClass(run)}${mine ? " chosen" : ""}`, onclick: () => select(run, 0, false) },
      make("header", {}, make("h2", {}, about.name), make("span", { class: "quiet figures" }, figures.join(" · "))),
      make("div", { class: "tokens", role: "group", "aria-label": `Hypothesis of ${about.name}` }, tokens), why);
  }
  function select(run, t, focus) {
    state.run = run;
    state.token = Math.max(0, Math.min(t, subject().credits[run].words.length - 1));
    quantities();
    hypotheses();
    token();
    curve();
    if (focus) document.querySelector(`[data-run="${run}"][data-token="${state.token}"]`)?.focus({ preventScroll: false });
  }
  function facts(one, t) {
    const found = Object.entries(QUANTITIES).map(([key, q]) => [key, q.label, number(one, key, t)]);
    if (one.returns) found.push(["returns", "Return", one.returns[t] / THOUSAND]);
    if (one.scores) found.push(["scores", "Score so far", one.scores[t + 1] / THOUSAND]);
    return found.filter(([, , value]) => value !== null);
  }
  function tip(node, one, t) {
    const lines = facts(one, t).filter(([key]) => key === state.quantity || key === "p").map(([key, label, value]) => `${label} ${exact(key, value)}`);
    $("tip").textContent = lines.join("\n");
    $("tip").hidden = false;
    const place = node.getBoundingClientRect(), box = $("tip").getBoundingClientRect();
    const below = place.bottom + 8 + box.height < innerHeight;
    $("tip").style.left = `${Math.max(8, Math.min(place.left, innerWidth - box.width - 8))}px`;
    $("tip").style.top = `${below ? place.bottom + 8 : Math.max(8, place.top - box.height - 8)}px`;
  }
  function hideTip() { $("tip").hidden = true; }

  // --- the token ------------------------------------------------------------------------------------------------
  function token() {
    const one = credit(), t = state.token, about = state.data.runs[state.run];
    const end = t === one.words.length - 1, said = end ? "end of sentence" : word(one.words[t]);
    const list = make("dl", { class: "facts" }, facts(one, t).map(([key, label, value]) =>
      make("div", { class: key === state.quantity ? "now" : "", "data-fact": key }, make("dt", {}, label), make("dd", {}, exact(key, value)))));
    const columns = Object.keys(LISTS).filter((name) => one[name]).map((name) => bars(one, name, t));
    $("token").replaceChildren(
      make("h2", {}, `Token ${t + 1} of ${about.name}: `, make("span", { class: "said" }, said)), list,
      ...(state.data.live ? [editor(one, t)] : []),
      make("div", { class: "bars" }, columns), ...missing(one, about));
  }
  function missing(one, about) {
    const lines = [];
    if (!about.critic) lines.push(`${about.name} has no critic, so there is neither Q nor P_Q.`);
    if (about.exact && !one.oracle && one.scores) lines.push(`Exact Q* is worked out for a single reference of at most ${state.data.longest_exact} words.`);
    return lines.length ? [make("p", { class: "quiet" }, lines.join(" "))] : [];
  }
  function bars(one, name, t) {
    const flat = one[name][t], about = state.data.runs[state.run];
    const wide = name !== "policy" || one.q ? 3 : 2;
    const items = [];
    for (let i = 0; i < flat.length; i += wide) {
      const p = flat[i + 1] / (10 * THOUSAND), q = wide === 3 ? flat[i + 2] / THOUSAND : null;
      const end = word(flat[i]) === "</s>";
      const label = end ? "end" : word(flat[i]);
      const kind = `word${flat[i] === one.words[t] ? " here" : ""}`;
      const box = state.data.live && !end
        ? make("button", { type: "button", class: kind, title: "Replace the token with this word", onclick: () => live.replace(t, [word(flat[i])]) }, label)
        : make("span", { class: kind }, label);
      box.style.setProperty("--share", `${(100 * p).toFixed(1)}%`);
      box.style.setProperty("--fill", name === "policy" ? "var(--run)" : name === "target" ? "rgb(var(--minus))" : "rgb(var(--plus))");
      items.push(make("li", { class: "bar" }, box, make("span", {}, exact("p", p)), make("span", {}, q === null ? "" : shown(q))));
    }
    const critic = name === "target" && about.critic !== about.name ? `, critic of ${about.critic}` : "";
    return make("section", { class: runClass(state.run), "data-list": name }, make("h3", {}, LISTS[name] + critic),
      make("div", { class: "bar head", "aria-hidden": "true" }, make("span", { class: "word" }, "word"), make("span", {}, "p"), make("span", {}, wide === 3 ? (name === "oracle" ? "Q*" : "Q") : "")),
      make("ol", { "aria-label": LISTS[name] }, items));
  }

  // --- figures --------------------------------------------------------------------------------------------------
  function ticks(low, high, wanted = 4) {
    const span = high - low || 1, rough = span / wanted, power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((x) => x * power).find((x) => x >= rough);
    const found = [];
    for (let x = Math.ceil(low / step) * step; x <= high + step * 1e-6; x += step) found.push(Math.abs(x) < step * 1e-6 ? 0 : x);
    return found;
  }
  function chart(holder, series, options) {
    const width = Math.max(240, Math.min(holder.clientWidth || 600, options.widest || 900)), height = options.height || 210;
    const left = 44, right = 14, top = 16, bottom = 40;
    const xs = series.flatMap((s) => s.points.map((p) => p[0])), ys = series.flatMap((s) => s.points.flatMap((p) => [p[1] - (p[2] || 0), p[1] + (p[2] || 0)]));
    if (options.zero) ys.push(0);
    let [x0, x1, y0, y1] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
    if (options.square) { x0 = y0 = Math.min(x0, y0); x1 = y1 = Math.max(x1, y1); }
    if (x0 === x1) x1 = x0 + 1;
    if (y0 === y1) { y0 -= 0.5; y1 += 0.5; }
    const X = (x) => left + ((x - x0) / (x1 - x0)) * (width - left - right);
    const Y = (y) => height - bottom - ((y - y0) / (y1 - y0)) * (height - top - bottom);
    const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": options.label });
    svg.style.maxWidth = `${width}px`;
    for (const y of ticks(y0, y1)) {
      svg.append(draw("line", { class: y === 0 ? "zero" : "axis", x1: left, x2: width - right, y1: Y(y), y2: Y(y) }),
        draw("text", { x: left - 7, y: Y(y) + 4, "text-anchor": "end" }, shown(y, Math.abs(y1 - y0) < 2 ? 2 : Math.abs(y1 - y0) < 8 ? 1 : 0)));
    }
    for (const x of ticks(x0, x1, Math.max(3, Math.floor(width / 90)))) {
      if (!options.whole || Number.isInteger(x)) svg.append(draw("text", { x: X(x), y: height - bottom + 17, "text-anchor": "middle" }, options.whole ? String(x) : shown(x, Math.abs(x1 - x0) < 4 ? 1 : 0)));
    }
    svg.append(draw("text", { x: (left + width - right) / 2, y: height - 4, "text-anchor": "middle" }, options.x));
    if (options.square) svg.append(draw("line", { class: "zero", x1: X(x0), y1: Y(y0), x2: X(x1), y2: Y(y1) }));
    if (options.mark !== undefined) svg.append(draw("line", { class: "mark", x1: X(options.mark), x2: X(options.mark), y1: top, y2: height - bottom }));
    for (const s of series) {
      const group = draw("g", { class: runClass(s.run) });
      if (!options.square) group.append(draw("polyline", { class: `line ${s.kind || ""}`, points: s.points.map((p) => `${X(p[0])},${Y(p[1])}`).join(" ") }));
      for (const p of s.points) {
        if (p[2]) group.append(draw("line", { class: "whisker", x1: X(p[0]), x2: X(p[0]), y1: Y(p[1] - p[2]), y2: Y(p[1] + p[2]) }));
        if (options.dots || options.square) {
          const dot = s.run % 2 ? draw("rect", { class: "dot", x: X(p[0]) - 4, y: Y(p[1]) - 4, width: 8, height: 8 }) : draw("circle", { class: "dot", cx: X(p[0]), cy: Y(p[1]), r: 4.5 });
          dot.append(draw("title", {}, p[3] || ""));
          group.append(dot);
        }
      }
      if (options.mark !== undefined && s.kind === "") {
        const p = s.points.find((point) => point[0] === options.mark);
        if (p) group.append(draw("circle", { class: "dot", cx: X(p[0]), cy: Y(p[1]), r: 5 }),
          draw("text", { class: "value", x: Math.min(X(p[0]) + 9, width - 40), y: Math.max(12, Y(p[1]) - 9) }, shown(p[1])));
      }
      svg.append(group);
    }
    holder.append(svg);
  }
  function curve() {
    const s = subject(), runs = state.data.runs;
    const series = [];
    s.credits.forEach((one, run) => {
      if (!one.scores || (run !== state.run && runs[run].payoff !== runs[state.run].payoff)) return;
      if (one.before) series.push({ run, kind: "before", points: one.before.map((x, t) => [t, x / THOUSAND]) });
      series.push({ run, kind: run === state.run ? "" : "pale", points: one.scores.map((x, t) => [t, x / THOUSAND]) });
    });
    if (!series.some((one) => one.run === state.run)) { $("curve").replaceChildren(); return; }
    const holder = make("div");
    $("curve").replaceChildren(make("h2", {}, "Score of every prefix"),
      make("div", { class: "keys" }, [...new Set(series.map((one) => one.run))].map((run) => make("span", { class: `key ${runClass(run)}` }, runs[run].name))), holder);
    const last = credit().scores[credit().scores.length - 1] / THOUSAND;
    chart(holder, series, { label: `Score of every prefix of ${runs[state.run].name}, ${shown(last)} at the end`, x: `tokens so far (${runs[state.run].payoff})`, mark: state.token + 1, whole: true, zero: true });
  }

  // --- all sentences --------------------------------------------------------------------------------------------
  function summary() {
    const { runs, summaries } = state.data;
    const keys = () => make("div", { class: "keys" }, runs.map((run, i) => make("span", { class: `key ${runClass(i)}` }, run.name)));
    const panel = (id, title, about, series, options, columns) => {
      const box = make("section", { class: "panel", id }, make("h2", {}, title), make("p", { class: "quiet" }, about));
      $("summary").append(box);
      if (!series.length) { box.append(make("p", {}, options.without)); return; }
      box.append(keys());
      const holder = make("div");
      box.append(holder);
      chart(holder, series, options);
      const lines = series.flatMap((s) => s.points.map((p) => make("tr", {}, [runs[s.run].name, ...options.cells(p)].map((cell) => make("td", {}, cell)))));
      box.append(make("details", {}, make("summary", {}, "As a table"), make("div", { class: "scroll" },
        make("table", {}, make("thead", {}, make("tr", {}, ["run", ...columns].map((name) => make("th", { scope: "col" }, name)))), make("tbody", {}, lines)))));
    };
    $("summary").replaceChildren();
    const soft = runs.some((run) => run.soft) ? " The Q of soft Q-learning is that of the best soft policy, so it may well be above what this policy got." : "";
    const judged = summaries.map((s, run) => ({ run, points: s.calibration.map(([q, r, e, n]) => [q / THOUSAND, r / THOUSAND, e / THOUSAND, `Q ${shown(q / THOUSAND)}, followed ${shown(r / THOUSAND)}, ${n} tokens`, n]) })).filter((s) => s.points.length);
    panel("calibration", "Does Q come true?", `Tokens in ten groups by Q, and the mean return that really followed; on the dotted line the critic is right. Whiskers: standard error.${soft}`, judged,
      { label: "Calibration of Q", x: "mean Q of the group (across), mean return that followed (up)", square: true, height: 320, widest: 460, without: "No run here has a critic and a reference.", cells: (p) => [shown(p[0]), shown(p[1]), shown(p[2]), String(p[4])] },
      ["mean Q", "return", "error", "tokens"]);
    const positions = (key) => summaries.map((s, run) => ({ run, points: s[key].map(([x, n], t) => [t + 1, x / THOUSAND, 0, `position ${t + 1}: ${shown(x / THOUSAND, 3)}, ${n} tokens`, n]) })).filter((s) => s.points.length);
    const cells = (p) => [String(p[0]), shown(p[1], 3), String(p[4])];
    panel("entropy-by-position", "Entropy by position", "How undecided the policy was, the mean over outputs that reach this position.", positions("entropy"),
      { label: "Entropy by position", x: "position of the token", whole: true, zero: true, dots: true, height: 260, without: "", cells }, ["position", "entropy", "tokens"]);
    panel("reward-by-position", "Reward by position", "What the tokens of each position add to the pay-off, on average.", positions("rewards"),
      { label: "Reward by position", x: "position of the token", whole: true, zero: true, dots: true, height: 260, without: "Rewards need a reference.", cells }, ["position", "reward", "tokens"]);
    const box = make("section", { class: "panel", id: "runs" }, make("h2", {}, "Runs"));
    const lines = runs.map((run) => make("tr", {}, [run.name, run.payoff, run.critic || "none", run.critic || run.exact ? String(run.tau) : "–", run.bleu === null || run.bleu === undefined ? "–" : run.bleu.toFixed(2)].map((cell) => make("td", {}, cell))));
    box.append(make("div", { class: "scroll" }, make("table", {}, make("thead", {}, make("tr", {}, ["run", "pay-off", "critic", "tau", "BLEU"].map((name) => make("th", { scope: "col" }, name)))), make("tbody", {}, lines))));
    if (state.data.signature) box.append(make("p", { class: "quiet" }, `Corpus BLEU of what is shown: ${state.data.signature}`));
    $("summary").append(box);
  }
  function part(name) {
    for (const one of ["sentences", "summary"]) {
      $(one).hidden = one !== name;
      $(`show-${one}`).setAttribute("aria-pressed", String(one === name));
    }
    if (name === "summary") summary();
    else detail();
  }

  // --- light and dark -------------------------------------------------------------------------------------------
  const isDark = () => (document.documentElement.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  function theme(turn) {
    if (turn) document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    $("theme").textContent = isDark() ? "Light" : "Dark";
    $("theme").setAttribute("aria-label", isDark() ? "Switch to light" : "Switch to dark");
  }

  // --- live: a server answers -----------------------------------------------------------------------------------
  const live = {
    upload: null,
    begin() {
      if (!state.data.live) return;
      $("composer").hidden = false;
      $("source-label").hidden = state.data.pictures;
      $("drop-label").hidden = !state.data.pictures;
      $("composer").addEventListener("submit", (event) => { event.preventDefault(); live.guarded(live.ask); });
      const drop = $("drop");
      drop.addEventListener("keydown", (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); $("file").click(); } });
      $("file").addEventListener("change", () => live.take($("file").files[0]));
      for (const name of ["dragenter", "dragover"]) drop.addEventListener(name, (event) => { event.preventDefault(); drop.classList.add("over"); });
      for (const name of ["dragleave", "drop"]) drop.addEventListener(name, (event) => { event.preventDefault(); drop.classList.remove("over"); });
      drop.addEventListener("drop", (event) => live.take(event.dataTransfer.files[0]));
    },
    take(file) {
      if (!file) return;
      const reader = new FileReader();
      reader.onload = () => {
        live.upload = reader.result.slice(reader.result.indexOf(",") + 1);
        $("drop").replaceChildren("Another one?", make("img", { src: reader.result, alt: "Your image" }));
      };
      reader.readAsDataURL(file);
    },
    async guarded(what, ...rest) {
      $("go").disabled = true;
      $("progress").textContent = "";
      try { await what(...rest); } catch (error) { $("progress").textContent = error.message; }
      $("go").disabled = false;
    },
    async post(path, body) {
      const answer = await fetch(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) })
        .catch(() => { throw new Error("The server does not answer."); });
      if (answer.ok) return answer;
      const said = await answer.json().catch(() => null);
      throw new Error(said?.error || `The server said ${answer.status}.`);
    },
    async grow(about, run, prefix, showWord) {
      const answer = await live.post("/api/grow", { ...about, run, prefix });
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      const words = [...prefix];
      let rest = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) return words;
        const lines = (rest + value).split("\n");
        rest = lines.pop();
        for (const line of lines) {
          const step = JSON.parse(line);
          if (!step.end) { words.push(step.word); showWord(step); }
        }
      }
    },
    async ask() {
      const source = $("source").value;
      const references = $("reference").value.split("\n").map((line) => line.trim()).filter(Boolean);
      const about = state.data.pictures ? { picture: live.upload } : { source };
      if (state.data.pictures ? !live.upload : !source.trim()) throw new Error(state.data.pictures ? "Choose an image first." : "Type a sentence first.");
      $("subject").replaceChildren();
      $("quantities").hidden = $("explain").hidden = true;
      for (const id of ["legend", "token", "curve"]) $(id).replaceChildren();
      const places = state.data.runs.map((run, i) => {
        const tokens = make("div", { class: "tokens growing" });
        return { tokens, card: make("article", { class: `card ${runClass(i)}` }, make("header", {}, make("h2", {}, run.name)), tokens) };
      });
      $("hypotheses").replaceChildren(...places.map((place) => place.card));
      const hypotheses = [];
      for (let run = 0; run < places.length; run++) {
        $("progress").textContent = `${state.data.runs[run].name} writes`;
        hypotheses.push(await live.grow(about, run, [], (step) => places[run].tokens.append(make("span", { class: "grown" }, step.word))));
      }
      const found = await live.score(about, references, hypotheses);
      state.data.subjects.unshift(found);
      state.hay = [];
      $("progress").textContent = "";
      $("search").value = "";
      $("sort").value = "data";
      state.run = 0;
      arrange();
    },
    async score(about, references, hypotheses) {
      const { subject: found, words, scales } = await (await live.post("/api/score", { ...about, references, hypotheses })).json();
      const offset = state.data.words.length;
      state.data.words.push(...words);
      for (const one of found.credits) {
        one.words = one.words.map((w) => w + offset);
        for (const name of Object.keys(LISTS)) {
          const wide = name !== "policy" || one.q ? 3 : 2;
          if (one[name]) one[name] = one[name].map((flat) => flat.map((x, i) => (i % wide === 0 ? x + offset : x)));
        }
      }
      for (const [key, value] of Object.entries(scales)) state.data.scales[key] = Math.max(value, state.data.scales[key] || 0);
      return Object.assign(found, { about });
    },
    said: (one) => one.words.slice(0, -1).map(word),
    async rescore(tokens, t) {
      const s = subject(), run = state.run, place = state.order[state.at];
      const hypotheses = s.credits.map((one, i) => (i === run ? tokens : live.said(one)));
      const found = await live.score(s.about, s.references, hypotheses);
      found.credits.forEach((one, i) => { if (i === run || s.credits[i].edited) { one.edited = true; one.before = s.credits[i].before || s.credits[i].scores; } });
      state.data.subjects[place] = found;
      state.hay = [];
      rows();
      detail();
      select(run, t, true);
    },
    replace(t, words, removed = 1) {
      const tokens = live.said(credit());
      tokens.splice(t, removed, ...words);
      live.guarded(live.rescore, tokens, t);
    },
    async onward(t) {
      const s = subject(), kept = live.said(credit()).slice(0, t + 1);
      $("progress").textContent = `${state.data.runs[state.run].name} goes on`;
      const tokens = await live.grow(s.about, state.run, kept, () => {});
      $("progress").textContent = "";
      await live.rescore(tokens, t);
    },
  };
  function editor(one, t) {
    const end = t === one.words.length - 1;
    const input = make("input", { id: "word", type: "text", maxlength: 200, autocomplete: "off", spellcheck: "false" });
    input.value = end ? "" : word(one.words[t]);
    const words = () => input.value.trim().split(/\s+/).filter(Boolean);
    const change = () => words().length && live.replace(t, words(), end ? 0 : 1);
    return make("form", { class: "replace", onsubmit: (event) => { event.preventDefault(); change(); } },
      make("label", { for: "word" }, end ? "Add" : "Replace by", input),
      make("button", { type: "submit", class: "strong" }, end ? "Add" : "Replace"),
      end ? null : make("button", { type: "button", class: "plain", onclick: () => live.replace(t, []) }, "Remove"),
      end ? null : make("button", { type: "button", class: "plain", onclick: () => live.guarded(live.onward, t) }, "Go on from here"));
  }

  // --- keys and clicks ------------------------------------------------------------------------------------------
  function keys(event) {
    const kind = event.target.tagName;
    if (event.ctrlKey || event.altKey || event.metaKey || $("sentences").hidden) return;
    if (event.key === "Escape") hideTip();
    if (["INPUT", "SELECT", "TEXTAREA"].includes(kind)) return;
    if (event.key === "/") { event.preventDefault(); $("search").focus(); return; }
    if (!state.order.length) return;
    const page = Math.max(1, Math.floor($("list").clientHeight / ROW) - 1);
    const moves = { ArrowUp: -1, ArrowDown: 1, PageUp: -page, PageDown: page };
    const inTokens = event.target.dataset?.token !== undefined;
    if (event.key in moves && !(kind === "SUMMARY")) {
      event.preventDefault();
      choose(state.at + moves[event.key]);
      if (inTokens) select(state.run, 0, true);
    } else if (event.key === "ArrowLeft" || event.key === "ArrowRight") {
      event.preventDefault();
      select(state.run, state.token + (event.key === "ArrowLeft" ? -1 : 1), true);
    } else if (inTokens && (event.key === "Home" || event.key === "End")) {
      event.preventDefault();
      select(state.run, event.key === "Home" ? 0 : Infinity, true);
    }
  }
  function build() {
    for (const [key, q] of Object.entries(QUANTITIES)) {
      const input = make("input", { type: "radio", name: "quantity", value: key, onchange: () => { state.quantity = key; quantities(); hypotheses(); token(); } });
      $("quantities").append(make("label", { title: q.about }, input, q.label));
    }
    for (const [key, [label]] of Object.entries(sorts())) $("sort").append(make("option", { value: key }, label));
    $("title").textContent = state.data.title;
    $("search").addEventListener("input", () => arrange());
    $("sort").addEventListener("change", () => arrange());
    $("list").addEventListener("scroll", rows, { passive: true });
    $("show-sentences").addEventListener("click", () => part("sentences"));
    $("show-summary").addEventListener("click", () => part("summary"));
    $("theme").addEventListener("click", () => theme(true));
    document.addEventListener("keydown", keys);
    let waiting = 0;
    addEventListener("resize", () => { clearTimeout(waiting); waiting = setTimeout(() => ($("summary").hidden ? (rows(), subject() && curve()) : summary()), 80); });
  }
  const whole = new Promise((done) => (document.readyState === "loading" ? addEventListener("DOMContentLoaded", done) : done()));
  async function begin() {
    state.data = await unpack("first");
    if (!state.data.summaries.length) document.querySelector(".tabs").hidden = true;
    theme(false);
    build();
    arrange();
    live.begin();
    requestAnimationFrame(() => (document.documentElement.dataset.shown = Math.round(performance.now())));
    await whole;
    state.data.subjects.push(...(await unpack("rest")));
    state.data.more = 0;
    arrange(true);
    document.documentElement.dataset.ready = Math.round(performance.now());
  }
  begin().catch(() => {
    $("failure").textContent = "The numbers of this page cannot be read. A browser of 2023 or later is needed.";
    $("failure").hidden = false;
  });
})();
