"use strict";
(() => {
  // [lane, file, compiler, state, start, length, waited, peak, archs, tools]; a tool is
  // [name, family, row, asked after the compile's start, waited, length, peak, expected, status, tries].
  // Times are milliseconds, memory is MiB.
  const data = JSON.parse(document.getElementById("data").textContent);
  const jobs = data.jobs.map(([lane, file, compiler, state, start, length, waited, peak, archs, tools]) => ({
    lane, file, compiler, state, start, end: start + length, waited, peak, archs,
    rows: 1 + Math.max(0, ...tools.map((tool) => tool[2])),
    tools: tools.map(([name, family, row, after, wait, took, peak, expected, status, tries]) => ({
      name: data.names[name], family: data.families[family], row, asked: start + after,
      start: start + after + wait, end: start + after + wait + took, peak, expected, status, tries,
    })),
  }));
  const lanes = Array.from({ length: data.lanes }, () => []);
  for (const job of jobs) {
    job.place = lanes[job.lane].length;
    lanes[job.lane].push(job);
  }
  const memory = [];
  for (let at = 0, time = 0; at < data.memory.length; at += 3) {
    time += data.memory[at];
    memory.push({ time, expected: data.memory[at + 1], peak: data.memory[at + 2] });
  }

  // ---- words
  const pad = (number) => String(number).padStart(2, "0");
  function clock(milliseconds) {
    const seconds = milliseconds / 1000;
    if (seconds < 59.95) return seconds >= 1 ? `${seconds.toFixed(1)} s` : `${seconds.toFixed(2)} s`;
    const whole = Math.round(seconds);
    const rest = `${Math.floor((whole % 3600) / 60)}`;
    return whole >= 3600
      ? `${Math.floor(whole / 3600)}:${pad(rest)}:${pad(whole % 60)}`
      : `${rest}:${pad(whole % 60)}`;
  }
  const size = (mebibytes) =>
    mebibytes >= 1024 ? `${(mebibytes / 1024).toFixed(1)} GiB` : `${mebibytes} MiB`;
  const words = { hit: "from the cache", done: "done", failed: "failed", "cut off": "cut off" };
  function jobText(job) {
    const waited = job.waited ? `, waited ${clock(job.waited)} for memory` : "";
    const peak = job.peak ? `, at most ${size(job.peak)}` : "";
    const tools = job.tools.length ? `, ${job.tools.length} tools` : "";
    return `${job.file}\n${job.compiler}${job.archs ? ` for ${job.archs}` : ""}: ${words[job.state]}, ` +
      `${clock(job.end - job.start)} from ${clock(job.start)} on${waited}${peak}${tools}`;
  }
  function toolText(job, tool) {
    const waited = tool.start > tool.asked ? `, waited ${clock(tool.start - tool.asked)} for memory` : "";
    const status = tool.status ? `, exit status ${tool.status}` : "";
    const tries = tool.tries > 1 ? `, ended for want of memory and started ${tool.tries} times` : "";
    return `${tool.name} of ${job.file}\n${clock(tool.end - tool.start)} from ${clock(tool.start)} on` +
      `${waited}; took ${size(tool.peak)}, expected ${size(tool.expected)}${status}${tries}`;
  }

  // ---- what is shown
  const box = document.getElementById("timeline");
  const canvas = box.querySelector("canvas");
  const pen = canvas.getContext("2d");
  const details = document.getElementById("details");
  const first = details.textContent;
  const LEFT = 58, RIGHT = 10, TOP = 24, CURVE = 110, FOOT = 10;
  const laneHeight = Math.max(8, Math.min(40, Math.floor(900 / Math.max(1, data.lanes))));
  const labelHeight = laneHeight >= 26 ? 15 : 0;
  const height = TOP + laneHeight * data.lanes + 22 + CURVE + FOOT;
  const whole = Math.max(1, data.elapsed);
  const view = { from: 0, to: whole };
  let width = 0, colors = {}, hatch = null, selected = null, inside = null, hovered = null, waiting = false;

  const x = (time) => LEFT + ((time - view.from) / (view.to - view.from)) * (width - LEFT - RIGHT);
  const timeAt = (left) => view.from + ((left - LEFT) / (width - LEFT - RIGHT)) * (view.to - view.from);

  function dress() {
    const style = getComputedStyle(document.documentElement);
    for (const name of ["paper", "raised", "ink", "soft", "line", "accent", "job", "edge", "on", "cicc",
      "ptxas", "cudafe", "host", "other", "hit", "bad", "wait"]) {
      colors[name] = style.getPropertyValue(`--${name}`).trim();
    }
    const tile = document.createElement("canvas");
    tile.width = tile.height = 6;
    const brush = tile.getContext("2d");
    brush.strokeStyle = colors.wait;
    brush.lineWidth = 1.4;
    brush.beginPath();
    for (const shift of [-6, 0, 6]) { brush.moveTo(shift - 1, 7); brush.lineTo(shift + 7, -1); }
    brush.stroke();
    hatch = pen.createPattern(tile, "repeat");
  }

  function fit() {
    const sharp = window.devicePixelRatio || 1;
    width = box.clientWidth;
    canvas.width = Math.round(width * sharp);
    canvas.height = Math.round(height * sharp);
    canvas.style.height = `${height}px`;
    pen.setTransform(sharp, 0, 0, sharp, 0, 0);
    draw();
  }

  function later() {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; draw(); });
  }

  // The first of these texts for which there is room.
  function write(texts, left, top, room, color) {
    const text = texts.find((one) => one && pen.measureText(one).width <= room);
    if (!text) return;
    pen.fillStyle = color;
    pen.fillText(text, left, top);
  }

  // The end of a path tells more than its beginning.
  function endOf(path, room) {
    const wide = pen.measureText(path).width;
    let keeps = Math.min(path.length - 1, Math.ceil((room / wide) * path.length));
    while (keeps > 2 && pen.measureText(`…${path.slice(-keeps)}`).width > room) keeps--;
    return keeps > 4 && `…${path.slice(-keeps)}`;
  }

  // Where bars of one row follow each other within half a pixel, only the first is drawn.
  function drawLane(row, top) {
    let drawn = -Infinity;
    for (let at = firstFrom(row, view.from); at < row.length && row[at].start <= view.to; at++) {
      const job = row[at], left = x(job.start), right = x(job.end);
      if (job.state === "hit" || (right - drawn < 0.5 && job.state !== "failed")) continue;
      drawJob(job, left, Math.max(right, left + 1.5), top);
      drawn = Math.max(right, left + 1.5);
    }
    drawHits(row, top);
  }

  // Hits are short: each is a line with a diamond on it, on top of everything else.
  function drawHits(row, top) {
    const wide = Math.min(4, (laneHeight - 2) / 3), high = top + wide + 1;
    let drawn = -Infinity;
    pen.fillStyle = colors.hit;
    for (let at = firstFrom(row, view.from); at < row.length && row[at].start <= view.to; at++) {
      if (row[at].state !== "hit" || x(row[at].start) - drawn < 2) continue;
      drawn = x(row[at].start);
      pen.fillRect(drawn, top, Math.max(1.5, x(row[at].end) - drawn), laneHeight - 2);
      pen.beginPath();
      pen.moveTo(drawn - wide, high);
      pen.lineTo(drawn + 0.75, high - wide);
      pen.lineTo(drawn + wide + 1.5, high);
      pen.lineTo(drawn + 0.75, high + wide);
      pen.fill();
      const room = x(row[at].end) - drawn - wide - 10;
      if (labelHeight) {
        write([row[at].file, endOf(row[at].file, room)], drawn + wide + 6, top + 11, room, colors.on);
        pen.fillStyle = colors.hit;
      }
    }
  }

  function drawJob(job, left, right, top) {
    const tall = laneHeight - 2, wide = right - left;
    const from = Math.max(left, LEFT - 4), to = Math.min(right, width);
    pen.fillStyle = colors.job;
    pen.fillRect(from, top, to - from, tall);
    if (wide >= 2.5) {
      for (const tool of job.tools) drawTool(job, tool, top);
      if (labelHeight) {
        const seen = Math.max(left, LEFT) + 4, room = Math.min(to, width - RIGHT) - seen - 4;
        const mark = job.state === "failed" ? "✕ " : "";
        const end = endOf(job.file, room - pen.measureText(mark).width);
        write([mark + job.file, end && mark + end], seen, top + 11, room, colors.ink);
      }
      pen.strokeStyle = job.state === "failed" ? colors.bad : colors.edge;
      pen.lineWidth = job.state === "failed" ? 2 : 1;
      pen.setLineDash(job.state === "cut off" ? [4, 3] : []);
      pen.strokeRect(left + 0.5, top + 0.5, Math.max(0.5, wide - 1), tall - 1);
      pen.setLineDash([]);
    } else if (job.state === "failed") {
      pen.fillStyle = colors.bad;
      pen.fillRect(left, top, Math.max(2, wide), tall);
    }
  }

  function strip(job, tool, top) {
    const tall = (laneHeight - 2 - labelHeight - 2) / job.rows;
    return [top + labelHeight + 1 + tool.row * tall, Math.max(1, tall - (job.rows > 1 ? 1 : 0))];
  }

  function drawTool(job, tool, top) {
    if (tool.end < view.from || tool.asked > view.to) return;
    const [high, tall] = strip(job, tool, top);
    const asked = x(tool.asked), left = x(tool.start), right = x(tool.end);
    if (left - asked >= 1) {
      pen.fillStyle = colors.paper;
      pen.fillRect(asked, high, left - asked, tall);
      pen.fillStyle = hatch;
      pen.fillRect(asked, high, left - asked, tall);
    }
    pen.fillStyle = colors[tool.family];
    pen.fillRect(left, high, Math.max(0.7, right - left - 0.7), tall);
    if (tool.status) {
      pen.fillStyle = colors.bad;
      pen.fillRect(left, high + tall - 3, Math.max(1, right - left), 3);
    }
    if (tall >= 12) {
      const seen = Math.max(left, LEFT);
      const room = Math.min(right, width - RIGHT) - seen - 6;
      write([tool.name, tool.name.split(" ")[1]], seen + 3, high + tall / 2 + 4, room, colors.on);
    }
  }

  function step(room) {
    const steps = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 15e3, 3e4, 6e4, 12e4, 3e5, 6e5,
      9e5, 18e5, 36e5, 72e5, 144e5, 432e5, 864e5];
    const wanted = ((view.to - view.from) / room) * 90;
    return steps.find((length) => length >= wanted) || Math.ceil(wanted / 864e5) * 864e5;
  }

  function tick(time, length) {
    if (length >= 1000) {
      const whole = Math.round(time / 1000);
      const rest = `${pad(Math.floor((whole % 3600) / 60))}:${pad(whole % 60)}`;
      return whole >= 3600 ? `${Math.floor(whole / 3600)}:${rest}` : rest.replace(/^0/, "");
    }
    return `${(time / 1000).toFixed(length < 10 ? 3 : length < 100 ? 2 : 1)} s`;
  }

  function drawAxis() {
    const length = step(width - LEFT - RIGHT);
    pen.textAlign = "center";
    for (let time = Math.ceil(view.from / length) * length; time <= view.to; time += length) {
      const at = Math.round(x(time)) + 0.5;
      pen.fillStyle = colors.line;
      pen.fillRect(at - 0.5, TOP - 4, 1, height - TOP - FOOT + 4);
      pen.fillStyle = colors.soft;
      const half = pen.measureText(tick(time, length)).width / 2;
      if (at + half < width - 2) pen.fillText(tick(time, length), at, TOP - 9);
    }
    pen.textAlign = "left";
  }

  // Highest values of the curve for each pixel column, so that no peak is lost at any zoom.
  function columns(field) {
    const room = Math.max(1, Math.floor(width - LEFT - RIGHT)), highest = new Float64Array(room);
    for (let at = Math.max(0, pointBefore(view.from)); at < memory.length && memory[at].time <= view.to; at++) {
      const next = at + 1 < memory.length ? memory[at + 1].time : memory[at].time;
      const from = Math.max(0, Math.floor(x(memory[at].time) - LEFT));
      const to = Math.min(room - 1, Math.floor(x(next) - LEFT));
      for (let column = from; column <= to; column++) {
        highest[column] = Math.max(highest[column], memory[at][field]);
      }
    }
    return highest;
  }

  const most = memory.reduce((sum, point) => Math.max(sum, point.expected, point.peak), 1);
  function drawMemory(top) {
    const base = top + CURVE, up = (value) => base - (value / most) * (CURVE - 6);
    const unit = most >= 1024 ? 1024 : 1, rough = most / unit / 3;
    const power = 10 ** Math.floor(Math.log10(rough));
    const grade = Math.max(unit === 1 ? 1 : 0, [1, 2, 5, 10].find((part) => part * power >= rough) * power);
    pen.textAlign = "right";
    for (let value = 0; value * unit <= most; value += grade) {
      pen.fillStyle = colors.line;
      pen.fillRect(LEFT, Math.round(up(value * unit)), width - LEFT - RIGHT, 1);
      pen.fillStyle = colors.soft;
      pen.fillText(`${+value.toFixed(2)}${value ? (unit === 1 ? " MiB" : " GiB") : ""}`, LEFT - 6, up(value * unit) + 4);
    }
    pen.textAlign = "left";
    const peaks = columns("peak"), expected = columns("expected");
    pen.fillStyle = colors.cicc;
    pen.globalAlpha = 0.55;
    peaks.forEach((value, column) => value && pen.fillRect(LEFT + column, up(value), 1, base - up(value)));
    pen.globalAlpha = 1;
    pen.strokeStyle = colors.ptxas;
    pen.lineWidth = 1.5;
    pen.beginPath();
    expected.forEach((value, column) => {
      pen.lineTo(LEFT + column, up(value));
      pen.lineTo(LEFT + column + 1, up(value));
    });
    pen.stroke();
    const words = "memory: expected at most", second = LEFT + 40 + pen.measureText(words).width;
    pen.fillStyle = colors.ptxas;
    pen.fillRect(LEFT, top - 9, 14, 2);
    pen.fillStyle = colors.cicc;
    pen.fillRect(second, top - 12, 14, 8);
    pen.fillStyle = colors.soft;
    pen.fillText(words, LEFT + 20, top - 4);
    pen.fillText("taken at most", second + 20, top - 4);
  }

  function outline(job, tool) {
    if (!job) return;
    const top = TOP + job.lane * laneHeight;
    const [high, tall] = tool ? strip(job, tool, top) : [top, laneHeight - 2];
    const left = x(tool ? tool.asked : job.start), right = x((tool || job).end);
    for (const [color, thick] of [[colors.paper, 5], [colors.ink, 2.5]]) {
      pen.strokeStyle = color;
      pen.lineWidth = thick;
      pen.strokeRect(left - 1, high - 1, Math.max(3, right - left + 2), tall + 2);
    }
  }

  function draw() {
    pen.fillStyle = colors.paper;
    pen.fillRect(0, 0, width, height);
    pen.font = "12px system-ui, sans-serif";
    drawAxis();
    pen.save();
    pen.beginPath();
    pen.rect(LEFT - 4, 0, width - LEFT - RIGHT + 8, height);
    pen.clip();
    lanes.forEach((row, lane) => drawLane(row, TOP + lane * laneHeight));
    if (hovered && hovered.job) outline(hovered.job, hovered.tool);
    outline(selected, inside);
    pen.restore();
    pen.fillStyle = colors.soft;
    const every = Math.max(1, Math.ceil(13 / laneHeight));
    for (let lane = 0; lane < data.lanes; lane += every) {
      pen.textAlign = "right";
      pen.fillText(`${lane + 1}`, LEFT - 6, TOP + lane * laneHeight + Math.min(laneHeight, 24) / 2 + 4);
    }
    pen.textAlign = "left";
    pen.fillText("lane", 6, TOP - 9);
    drawMemory(TOP + laneHeight * data.lanes + 22);
  }

  // ---- finding
  function search(length, isBefore) {
    let low = 0, high = length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (isBefore(middle)) low = middle + 1;
      else high = middle;
    }
    return low;
  }
  const firstFrom = (row, time) => search(row.length, (at) => row[at].end < time);
  const pointBefore = (time) => search(memory.length, (at) => memory[at].time <= time) - 1;

  function find(left, top) {
    const lane = Math.floor((top - TOP) / laneHeight), row = lanes[lane];
    if (!row || left < LEFT) return null;
    const time = timeAt(left), near = timeAt(left + 3) - time;
    const some = row.slice(Math.max(0, firstFrom(row, time - near) - 1)).slice(0, 3)
      .filter((job) => job.start - near <= time && time <= job.end + near);
    const job = some.find((one) => one.start <= time && time <= one.end) || some[0];
    if (!job) return null;
    const tool = job.tools.find((one) => {
      const [high, tall] = strip(job, one, TOP + lane * laneHeight);
      return one.asked <= time && time <= one.end && top >= high && top <= high + tall;
    });
    return { job, tool };
  }

  function memoryText(time) {
    const point = memory[pointBefore(time)];
    return point
      ? `${clock(time)}\nmemory: at most ${size(point.peak)} taken, ${size(point.expected)} expected`
      : `${clock(time)}\nno tool ran`;
  }

  function tell() {
    const shown = hovered || (selected && { job: selected, tool: inside });
    if (!shown) details.textContent = first;
    else if (!shown.job) details.textContent = memoryText(shown.time);
    else details.textContent = shown.tool ? toolText(shown.job, shown.tool) : jobText(shown.job);
    later();
  }

  // ---- moving
  function look(from, to) {
    const wide = Math.min(whole, Math.max(1, to - from));
    view.from = Math.max(0, Math.min(from, whole - wide));
    view.to = view.from + wide;
    later();
  }
  function zoom(factor, centre) {
    const wide = (view.to - view.from) * factor, part = (centre - view.from) / (view.to - view.from);
    look(centre - wide * part, centre - wide * part + wide);
  }
  const middle = () => (selected ? (selected.start + selected.end) / 2 : (view.from + view.to) / 2);
  function show(item) {
    if (item.start >= view.from && item.end <= view.to) return;
    const wide = Math.max(view.to - view.from, (item.end - item.start) * 1.2);
    const centre = (item.start + item.end) / 2;
    look(centre - wide / 2, centre + wide / 2);
  }
  function select(job, tool) {
    if (!job) return;
    [selected, inside, hovered] = [job, tool || null, null];
    show(tool || job);
    tell();
  }

  function otherLane(by) {
    const time = (selected.start + selected.end) / 2;
    for (let lane = selected.lane + by; lanes[lane]; lane += by) {
      const row = lanes[lane];
      if (row.length) return row[Math.min(row.length - 1, firstFrom(row, time))];
    }
    return null;
  }
  function across(by) {
    if (!inside) return select(lanes[selected.lane][selected.place + by]);
    const tool = selected.tools[selected.tools.indexOf(inside) + by];
    return tool && select(selected, tool);
  }
  const keys = {
    ArrowLeft: () => across(-1),
    ArrowRight: () => across(1),
    ArrowUp: () => select(otherLane(-1)),
    ArrowDown: () => select(otherLane(1)),
    Home: () => select(jobs[0]),
    End: () => select(jobs[jobs.length - 1]),
    Enter: () => select(selected, selected.tools[0]),
    Escape: () => select(selected),
  };
  const zooms = {
    "+": () => zoom(0.5, middle()), "=": () => zoom(0.5, middle()), "-": () => zoom(2, middle()),
    0: () => look(0, whole),
  };
  box.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const act = zooms[event.key] || keys[event.key];
    if (!act) return;
    event.preventDefault();
    if (selected || event.key === "End" || zooms[event.key]) act();
    else select(jobs[0]);
  });
  document.getElementById("closer").addEventListener("click", () => zoom(0.5, middle()));
  document.getElementById("wider").addEventListener("click", () => zoom(2, middle()));
  document.getElementById("whole").addEventListener("click", () => look(0, whole));

  // ---- pointing
  const place = (event) => {
    const frame = canvas.getBoundingClientRect();
    return [event.clientX - frame.left, event.clientY - frame.top];
  };
  let grabbed = null;
  box.addEventListener("pointerdown", (event) => {
    grabbed = { left: place(event)[0], from: view.from, to: view.to, moved: false };
    box.setPointerCapture(event.pointerId);
  });
  box.addEventListener("pointermove", (event) => {
    const [left, top] = place(event);
    if (grabbed && (grabbed.moved || Math.abs(left - grabbed.left) > 3)) {
      grabbed.moved = true;
      box.classList.add("moving");
      const shift = ((grabbed.left - left) / (width - LEFT - RIGHT)) * (grabbed.to - grabbed.from);
      look(grabbed.from + shift, grabbed.to + shift);
      return;
    }
    const inCurve = left >= LEFT && top >= TOP + laneHeight * data.lanes;
    hovered = find(left, top) || (inCurve ? { job: null, time: timeAt(left) } : null);
    tell();
  });
  box.addEventListener("pointerup", (event) => {
    const found = grabbed && !grabbed.moved && find(...place(event));
    grabbed = null;
    box.classList.remove("moving");
    if (found) select(found.job, found.tool);
  });
  box.addEventListener("pointercancel", () => { grabbed = null; box.classList.remove("moving"); });
  box.addEventListener("pointerleave", () => { hovered = null; tell(); });
  box.addEventListener("dblclick", (event) => {
    const found = find(...place(event));
    if (!found) return;
    const room = (found.job.end - found.job.start) * 0.05 + 1;
    look(found.job.start - room, found.job.end + room);
  });
  box.addEventListener("wheel", (event) => {
    if (event.ctrlKey) {
      event.preventDefault();
      zoom(event.deltaY > 0 ? 1.25 : 0.8, timeAt(place(event)[0]));
    } else if (event.deltaX) {
      event.preventDefault();
      const shift = (event.deltaX / width) * (view.to - view.from);
      look(view.from + shift, view.to + shift);
    }
  }, { passive: false });

  // ---- the table
  const body = document.querySelector("tbody");
  const key = (cell) => (cell.dataset.v === undefined ? cell.textContent : Number(cell.dataset.v));
  const compare = (one, two) => (typeof one === "number" ? one - two : one.localeCompare(two, "en", { numeric: true }));
  document.querySelectorAll("thead th").forEach((head, column, heads) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      // Numbers are wanted largest first, names from A on; a second click turns that around.
      const now = head.getAttribute("aria-sort");
      const before = now || (head.classList.contains("n") ? "ascending" : "descending");
      const order = before === "ascending" ? "descending" : "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", order);
      const sign = order === "ascending" ? 1 : -1;
      const rows = Array.from(body.rows, (row) => [key(row.cells[column]), row]);
      rows.sort(([one], [two]) => sign * compare(one, two));
      body.append(...rows.map(([, row]) => row));
    });
  });

  if (jobs.length) {
    document.getElementById("timeline-section").hidden = false;
    dress();
    new ResizeObserver(fit).observe(box);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { dress(); later(); });
  }
})();
