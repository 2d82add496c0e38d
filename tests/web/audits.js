// The audits of GraphQL over HTTP that the `graphql-http` package holds servers to.
//
//   usage: node audits.js URL
//
// Prints a line of JSON: { audits, failures }: how many there are, and [{ id, name, status, reason }] of those that are
// not ok. A warning or a notice is not ok either.

import { serverAudits } from 'graphql-http';

const [url] = process.argv.slice(2);
const audits = serverAudits({ url });
const failures = [];
for (const audit of audits) {
  const result = await audit.fn();
  if (result.status !== 'ok') failures.push({ id: audit.id, name: audit.name, status: result.status, reason: result.reason });
}
process.stdout.write(`${JSON.stringify({ audits: audits.length, failures })}\n`);
