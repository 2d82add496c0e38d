// Light or dark: as the system prefers, until the reader chooses.

import { store } from './store';

export type Theme = 'system' | 'light' | 'dark';

const KEY = 'btcgraph:theme';
const THEMES: Theme[] = ['system', 'light', 'dark'];

function stored(): Theme {
  try {
    const theme = localStorage.getItem(KEY) as Theme;
    return THEMES.includes(theme) ? theme : 'system';
  } catch {
    return 'system';
  }
}

export const theme = store<Theme>(stored());

const apply = () => {
  const chosen = theme.get();
  if (chosen === 'system') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = chosen;
};
apply();

theme.subscribe(() => {
  apply();
  try {
    localStorage.setItem(KEY, theme.get());
  } catch {
    // the choice lasts as long as the page
  }
});

/** The theme after this one. */
export const following = (current: Theme): Theme => THEMES[(THEMES.indexOf(current) + 1) % THEMES.length]!;
