// GraphiQL's explorer of fields, kept from taking the focus by itself.
//
// It focuses each argument that it shows, also when it is opened or another tab is chosen: what is typed next would
// change the query in a place that may be out of sight. It may do so only for who is working in it.

import { explorerPlugin } from '@graphiql/plugin-explorer';

/** Made once: GraphiQL knows its panels by identity. */
export const explorer = explorerPlugin();

const isWithin = (target: EventTarget | null): target is HTMLElement =>
  target instanceof HTMLElement && target.closest('.graphiql-explorer-root') !== null;

let working = false;
addEventListener('pointerdown', ({ target }) => { working = isWithin(target); }, true);
addEventListener('keydown', ({ key, target }) => { working = key === 'Tab' || isWithin(target); }, true);
addEventListener('focusin', ({ target, relatedTarget }) => {
  if (working || !isWithin(target)) return;
  if (relatedTarget instanceof HTMLElement) relatedTarget.focus({ preventScroll: true });
  else target.blur();
  // a browser scrolls to what takes the focus after the event
  requestAnimationFrame(() => document.querySelector('.graphiql-plugin')?.scrollTo(0, 0));
});
