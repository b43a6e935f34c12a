// What the theme lacks: a button beside each block of code that copies it (of a console block only
// what is typed), the keyboard in wide blocks, and the level of the headings in the navigation.
"use strict";

const PROMPT = /^[$#>] /;

/** The commands of a console block without their prompts; the whole text of any other. */
function copied(text) {
  const commands = text.split("\n").filter((line) => PROMPT.test(line));
  return commands.length ? commands.map((line) => line.slice(2)).join("\n") : text;
}

function addButtons() {
  for (const block of navigator.clipboard ? document.querySelectorAll("pre") : []) {
    const button = document.createElement("button");
    button.className = "copy";
    button.textContent = "Copy";
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(copied(block.textContent));
      button.textContent = "Copied";
    });
    block.tabIndex = 0; // wide ones scroll, also by the keyboard
    block.before(button);
  }
}

function addLevels() {
  for (const heading of document.querySelectorAll("p.caption[role=heading]"))
    heading.ariaLevel = "2";
}

/** Titles of the theme's icons: Sphinx, which marks the words that were looked for, fails in one. */
function dropTitlesOfIcons() {
  for (const title of document.querySelectorAll("symbol > title")) title.remove();
}

document.addEventListener("DOMContentLoaded", dropTitlesOfIcons);
document.addEventListener("DOMContentLoaded", addButtons);
document.addEventListener("DOMContentLoaded", addLevels);
