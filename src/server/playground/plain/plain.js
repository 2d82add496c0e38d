// The small page: a query with variables, its answer, and a log of the events of a subscription.

import { curl, fetched, socketed, websocat } from './elsewhere.js';
import { examples, newest } from './examples.js';
import { subscribe } from './live.js';

/** The most events that are kept in the log. */
const LOG_LENGTH = 200;

const at = (id) => document.getElementById(id);
const query = at('query');
const variables = at('variables');

let stop = null; // ends the subscription that is running
let asked = 0; // counts requests, so that a late answer does not replace a newer one

function say(text, bad = false) {
  at('status').textContent = text;
  at('status').classList.toggle('bad', bad);
}

/** The request as it is written. Throws when the variables are no JSON object. */
function request() {
  const text = variables.value.trim();
  if (!text) return { query: query.value };
  let given;
  try {
    given = JSON.parse(text);
  } catch (error) {
    throw new Error(`The variables are not JSON: ${error.message}`);
  }
  if (given === null || typeof given !== 'object' || Array.isArray(given)) {
    throw new Error('The variables must be a JSON object.');
  }
  return { query: query.value, variables: given };
}

/** Whether the query is a subscription, judged by what stands outside of strings and comments. */
function isSubscription(text) {
  const bare = text.replace(/"""[^]*?"""|"(?:\\.|[^"\\\n])*"|#.*/g, ' ');
  return /(?:^|\})\s*subscription\b/.test(bare);
}

const pretty = (value) => JSON.stringify(value, null, 2);

async function ask(payload) {
  const number = ++asked;
  const started = performance.now();
  say('Asking …');
  try {
    const response = await fetch('/graphql', {
      method: 'POST',
      headers: { 'content-type': 'application/json', accept: 'application/json' },
      body: JSON.stringify(payload),
    });
    const answer = await response.json();
    if (number !== asked) return;
    at('answer').textContent = pretty(answer);
    const failed = Boolean(answer.errors);
    say(`${failed ? 'Errors' : 'Answered'} in ${Math.round(performance.now() - started)} ms`, failed);
  } catch (error) {
    if (number === asked) say(`No answer: ${error.message}`, true);
  }
}

function log(answer) {
  const entry = document.createElement('li');
  const time = document.createElement('time');
  const now = new Date();
  time.dateTime = now.toISOString();
  time.textContent = now.toLocaleTimeString();
  entry.append(time, `\n${pretty(answer)}`);
  at('log').prepend(entry);
  while (at('log').children.length > LOG_LENGTH) at('log').lastElementChild.remove();
}

function listen(payload) {
  at('live').hidden = false;
  at('run').textContent = 'Stop';
  say('Connecting …');
  stop = subscribe(payload, {
    started: () => say('Listening'),
    next: log,
    ended: (why) => {
      stop = null;
      at('run').textContent = 'Run';
      say(`Over: ${why}`, why !== 'stopped');
    },
  });
}

function run() {
  if (stop) return stop();
  try {
    const payload = request();
    if (isSubscription(payload.query)) listen(payload);
    else ask(payload);
  } catch (error) {
    say(error.message, true);
  }
}

/** Shows how the same is asked from elsewhere; while the variables are being written, what it was before. */
function showElsewhere() {
  try {
    const payload = request();
    const live = isSubscription(payload.query);
    at('shell').textContent = live ? websocat(payload) : curl(payload);
    at('script').textContent = live ? socketed(payload) : fetched(payload);
  } catch {
    // `run` says what is wrong with the variables
  }
}

function show(example, button) {
  query.value = example.query;
  variables.value = example.variables;
  for (const other of at('examples').children) other.setAttribute('aria-pressed', String(other === button));
  showElsewhere();
}

function showExamples(subjects) {
  at('examples').replaceChildren(...examples(subjects).map((example) => {
    const button = document.createElement('button');
    button.type = 'button';
    button.textContent = example.title;
    button.addEventListener('click', () => show(example, button));
    return button;
  }));
  at('examples').firstElementChild.click();
}

async function copy(button) {
  const text = at(button.dataset.copies).textContent;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = 'Copied';
  } catch {
    // without https a browser has no clipboard for pages: mark the text, so that a key copies it
    getSelection().selectAllChildren(at(button.dataset.copies));
    button.textContent = 'Marked';
  }
  setTimeout(() => { button.textContent = 'Copy'; }, 1500);
}

function useTheme(theme) {
  document.documentElement.dataset.theme = theme;
  at('theme').value = theme;
}

useTheme(localStorage.getItem('btcgraph:theme') ?? '');
at('theme').addEventListener('change', ({ target }) => {
  localStorage.setItem('btcgraph:theme', target.value);
  useTheme(target.value);
});
at('request').addEventListener('submit', (event) => {
  event.preventDefault();
  run();
});
at('request').addEventListener('input', showElsewhere);
at('request').addEventListener('keydown', (event) => {
  if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    run();
  }
});
at('clear').addEventListener('click', () => at('log').replaceChildren());
for (const button of document.querySelectorAll('[data-copies]')) button.addEventListener('click', () => copy(button));
showExamples(await newest());
