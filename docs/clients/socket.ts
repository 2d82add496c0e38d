// A client for websockets that notices when nothing comes through any more: see docs/frontend.md.

import { type Client, type ClientOptions, createClient } from 'graphql-ws';

/** A websocket that closes if it is not open within so many milliseconds. */
function impatient(Socket: typeof WebSocket, milliseconds: number): typeof WebSocket {
  return class extends Socket {
    constructor(url: string | URL, protocols?: string | string[]) {
      super(url, protocols);
      const late = setTimeout(() => this.close(), milliseconds);
      for (const event of ['open', 'close']) this.addEventListener(event, () => clearTimeout(late));
    }
  };
}

/**
 * A client of graphql-ws that pings the server every 10 seconds, drops a connection on which nothing is answered within
 * `answerWithin` milliseconds, and leaves further attempts to `resume`.
 */
export function createSocket(options: ClientOptions, answerWithin = 5_000): Client {
  const Socket = (options.webSocketImpl ?? WebSocket) as typeof WebSocket;
  let silence: ReturnType<typeof setTimeout> | undefined;
  const client = createClient({
    keepAlive: 10_000,
    retryAttempts: 0,
    ...options,
    webSocketImpl: impatient(Socket, answerWithin),
    on: {
      ...options.on,
      connecting(isRetry) {
        // that of the previous connection
        clearTimeout(silence);
        options.on?.connecting?.(isRetry);
      },
      ping(received, payload) {
        options.on?.ping?.(received, payload);
        if (!received) silence = setTimeout(() => client.terminate(), answerWithin);
      },
      pong(received, payload) {
        options.on?.pong?.(received, payload);
        if (received) clearTimeout(silence);
      },
      closed(event) {
        clearTimeout(silence);
        options.on?.closed?.(event);
      },
    },
  });
  return client;
}
