'use strict';

// Every control is added here, so that the page without scripts has none that
// does nothing.

const makeButton = (className, label) => {
  const button = document.createElement('button');
  button.type = 'button';
  button.className = className;
  if (label) button.setAttribute('aria-label', label);
  return button;
};

const announce = (text) => {
  document.getElementById('status').textContent = text;
};

const compareCells = (a, b, isNumber) => {
  if (isNumber) return Number(a.dataset.value) - Number(b.dataset.value);
  return a.textContent.localeCompare(b.textContent, undefined, {numeric: true});
};

const sortRows = (table, heads, column) => {
  const head = heads[column];
  const isNumber = head.classList.contains('number');
  const descending = head.getAttribute('aria-sort') === 'ascending';
  const isMissing = (cell) =>
    isNumber ? !('value' in cell.dataset) : cell.textContent === '–';
  const rows = [...table.tBodies[0].rows];
  rows.sort((first, second) => {
    const a = first.cells[column];
    const b = second.cells[column];
    // Missing values stay last in both directions.
    if (isMissing(a) || isMissing(b)) return isMissing(a) - isMissing(b);
    return descending ? compareCells(b, a, isNumber)
                      : compareCells(a, b, isNumber);
  });
  for (const other of heads) other.setAttribute('aria-sort', 'none');
  const order = descending ? 'descending' : 'ascending';
  head.setAttribute('aria-sort', order);
  table.tBodies[0].append(...rows);
  announce(`Sorted by ${head.textContent}, ${order}.`);
};

for (const table of document.querySelectorAll('table.sortable')) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = makeButton('sort');
    button.append(...head.childNodes);
    head.append(button);
    head.setAttribute('aria-sort', 'none');
    button.addEventListener('click', () => sortRows(table, heads, column));
  });
}

const images = document.querySelectorAll('figure img');
if (images.length) {
  const dialog = document.createElement('dialog');
  dialog.setAttribute('aria-label', 'Enlarged figure');
  const close = makeButton('button');
  close.textContent = 'Close';
  close.addEventListener('click', () => dialog.close());
  const enlarged = new Image();
  const caption = document.createElement('p');
  dialog.append(close, enlarged, caption);
  dialog.addEventListener('click', (event) => {
    if (event.target === dialog) dialog.close();
  });
  document.body.append(dialog);
  for (const image of images) {
    const button = makeButton('enlarge', `Enlarge: ${image.alt}`);
    image.replaceWith(button);
    button.append(image);
    button.addEventListener('click', () => {
      enlarged.src = image.src;
      enlarged.alt = image.alt;
      caption.textContent = image.alt;
      dialog.showModal();
    });
  }
}

for (const box of document.querySelectorAll('.command')) {
  const button = makeButton('button');
  button.textContent = 'Copy';
  const code = box.querySelector('code');
  button.addEventListener('click', async () => {
    try {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = 'Copied';
      announce('Command copied.');
    } catch {
      // No access to the clipboard: select, and leave the copy to the person.
      getSelection().selectAllChildren(code);
      announce('Command selected.');
    }
  });
  box.append(button);
}

addEventListener('beforeprint', () => {
  for (const details of document.querySelectorAll('details')) {
    details.open = true;
  }
});
