// Monaco, GraphiQL's editor, checks and completes in workers. They come from this server, like everything else.

/** Where build.mjs put them: by Monaco's name of each, and under "" the one for all else. */
declare const WORKERS: Record<string, string>;

window.MonacoEnvironment = {
  getWorker: (_, label) => new Worker(WORKERS[label] ?? WORKERS['']!, { type: 'module', name: label }),
};

export {};
