// Subscriptions by graphql-transport-ws, spoken directly (https://github.com/enisdenjo/graphql-ws, PROTOCOL.md).

/** The endpoint of this page's server for websockets. */
export const liveUrl = () => `${location.protocol === 'https:' ? 'wss' : 'ws'}://${location.host}/graphql`;

/**
 * Runs one operation on a socket of its own.
 * @param {object} payload the request: query and variables
 * @param {{ started(): void, next(answer: object): void, ended(why: string): void }} on
 * @returns {() => void} ends it
 */
export function subscribe(payload, on) {
  const socket = new WebSocket(liveUrl(), 'graphql-transport-ws');
  let over = false;
  const send = (message) => socket.send(JSON.stringify(message));
  const end = (why) => {
    if (over) return;
    over = true;
    socket.close(1000);
    on.ended(why);
  };
  socket.onopen = () => send({ type: 'connection_init' });
  socket.onmessage = ({ data }) => {
    if (over) return;
    const message = JSON.parse(data);
    switch (message.type) {
      case 'connection_ack':
        send({ id: '1', type: 'subscribe', payload });
        on.started();
        break;
      case 'next':
        on.next(message.payload);
        break;
      case 'ping':
        send({ type: 'pong' });
        break;
      case 'error':
        on.next({ errors: message.payload });
        end('refused');
        break;
      case 'complete':
        end('the server ended it');
    }
  };
  socket.onclose = ({ code, reason }) => end(`the connection closed: ${code}${reason ? ` ${reason}` : ''}`);
  return () => {
    if (!over && socket.readyState === WebSocket.OPEN) send({ id: '1', type: 'complete' });
    end('stopped');
  };
}
