// A value outside of React that components follow.

import { useSyncExternalStore } from 'react';

export type Store<T> = { get(): T; set(value: T): void; subscribe(listener: () => void): () => void };

export function store<T>(value: T): Store<T> {
  const listeners = new Set<() => void>();
  return {
    get: () => value,
    set(next) {
      if (Object.is(next, value)) return;
      value = next;
      for (const listener of listeners) listener();
    },
    subscribe(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

export const useStore = <T,>({ subscribe, get }: Store<T>) => useSyncExternalStore(subscribe, get);

/** The time, which moves on once a second while the page is in sight. */
const clock = store(Date.now());
const move = () => { if (!document.hidden) clock.set(Date.now()); };
setInterval(move, 1_000);
document.addEventListener('visibilitychange', move);

export const useNow = () => useStore(clock);
