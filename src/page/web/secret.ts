// A field for the secret of protected datasets, which leads to the page that shows them.

import { h } from "./dom";

/** The address of this view with another secret. */
function placeWith(secret: string): string {
  const root = location.pathname.replace(/\/k\/[^/]+\/$/, "/");
  return `${root}k/${encodeURIComponent(secret)}/${location.hash}`;
}

/** The form: a secret that is wrong leads to a page of the server that says so, and asks again. */
export function secretForm(): HTMLElement {
  const input = h("input", {
    id: "secret",
    name: "secret",
    type: "password",
    required: true,
    autocomplete: "off",
  });
  const onsubmit = (event: Event) => {
    event.preventDefault();
    location.assign(placeWith(input.value));
  };
  return h(
    "form",
    { className: "secret", onsubmit },
    h("label", { htmlFor: "secret" }, "Secret of protected datasets"),
    input,
    h("button", { type: "submit" }, "Open"),
  );
}
