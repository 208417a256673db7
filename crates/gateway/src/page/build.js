// Elements, tables and numbers as text. Whatever comes from outside is text and never markup.

export function element(name, properties = {}, ...children) {
  const node = document.createElement(name);
  for (const [property, value] of Object.entries(properties)) {
    if (property === "class") node.className = value;
    else if (property in node && !property.startsWith("aria")) node[property] = value;
    else node.setAttribute(property, value);
  }
  node.append(...children);
  return node;
}

/** A table. A column is `[title, cell of a row, whether it is a number]`. */
export function table(columns, rows) {
  const head = element("tr", {}, ...columns.map(([title, , right]) => element("th", { scope: "col", class: right ? "right" : "" }, title)));
  const body = rows.map((row) => element("tr", {}, ...columns.map(([, cell, right]) => {
    const content = cell(row);
    return element("td", { class: right ? "right" : "" }, ...(Array.isArray(content) ? content : [content ?? "–"]));
  })));
  return element("table", {}, element("thead", {}, head), element("tbody", {}, ...body));
}

export const nothing = (...text) => element("p", { class: "nothing" }, ...text);
export const tag = (text, more = "") => element("span", { class: `tag ${more}` }, text);
export const count = (value) => (value === null || value === undefined ? "–" : Math.round(value).toLocaleString("en"));

export function seconds(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  if (value < 0.0995) return `${(value * 1e3).toFixed(value < 0.01 ? 1 : 0)} ms`;
  return value < 120 ? `${value.toFixed(2)} s` : duration(value);
}

export function duration(value) {
  const units = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const [size, name] = units.find(([size]) => value >= size) ?? [1, "s"];
  return `${Math.floor(value / size)} ${name}`;
}

/** Decimal text of money, to cents above one and to four digits below. */
export function money(text, currency) {
  const value = Number(text);
  const digits = value === 0 || value >= 1 ? 2 : 4;
  return `${value.toLocaleString("en", { minimumFractionDigits: 2, maximumFractionDigits: digits })} ${currency}`;
}
