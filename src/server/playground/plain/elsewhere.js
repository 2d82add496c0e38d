// The same request from a shell, and from a script.

import { liveUrl } from './live.js';

/** A word for a POSIX shell. */
const quoted = (text) => `'${text.replaceAll("'", `'\\''`)}'`;

/** A query on one line without its comments; as it is, if it has strings, in which both may mean something. */
function oneLine(query) {
  const bare = query.replace(/^\s*#.*$/gm, '');
  return /["#]/.test(bare) ? query : bare.trim().replace(/\s+/g, ' ');
}

/** @param {{ query: string, variables?: object }} request */
const body = (request) => JSON.stringify({ ...request, query: oneLine(request.query) });

/** A query by curl. */
export const curl = (request) => `curl -s ${location.origin}/graphql -H 'content-type: application/json' \\
  --data-binary ${quoted(body(request))}`;

/** A subscription by websocat. */
export const websocat = (request) => `(echo '{"type":"connection_init"}'; sleep 1
 echo ${quoted(`{"id":"1","type":"subscribe","payload":${body(request)}}`)}) |
  websocat -n --protocol graphql-transport-ws ${liveUrl()}`;

/** A query by fetch. */
export const fetched = (request) => `const response = await fetch('${location.origin}/graphql', {
  method: 'POST',
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify(${body(request)}),
});
console.log(await response.json());`;

/** A subscription by WebSocket. */
export const socketed = (request) => `const socket = new WebSocket('${liveUrl()}', 'graphql-transport-ws');
const send = (message) => socket.send(JSON.stringify(message));
socket.onopen = () => send({ type: 'connection_init' });
socket.onmessage = ({ data }) => {
  const message = JSON.parse(data);
  if (message.type === 'connection_ack') send({ id: '1', type: 'subscribe', payload: ${body(request)} });
  else if (message.type === 'ping') send({ type: 'pong' });
  else console.log(message.payload);
};`;
