// What all pages are made of.

import { CombinedGraphQLErrors } from '@apollo/client';
import { type ReactNode, useEffect, useId, useRef, useState } from 'react';
import { ago, btc, count, feeClass, rate, utc } from './format';
import { signIn } from './client';
import { isForbidden, isUnreachable, shown } from './page';
import { Link } from './router';
import { useNow, useStore } from './store';

/** An amount in BTC with all its digits. */
export function Amount({ sats, signed = false, unit = true }: { sats: number | bigint; signed?: boolean; unit?: boolean }) {
  const { sign, whole, significant, zeros } = btc(sats);
  const isPositive = signed && sats > 0;
  return (
    <span className={`amount${signed ? (isPositive ? ' gain' : sats < 0 ? ' loss' : '') : ''}`} title={`${count(sats)} sat`}>
      {isPositive ? '+' : sign}
      {whole}.{significant}
      {zeros && <span className="zeros">{zeros}</span>}
      {unit && <span className="unit"> BTC</span>}
    </span>
  );
}

/** A feerate with the colour of its class. */
export function FeeRate({ value, unit = true }: { value: number; unit?: boolean }) {
  return (
    <span className="rate">
      <span className={`dot fee-${feeClass(value)}`} aria-hidden="true" />
      {rate(value)}
      {unit && <span className="unit"> sat/vB</span>}
    </span>
  );
}

/** How long ago it is, in words that follow the clock. */
export function Age({ time }: { time: string }) {
  const now = useNow();
  return (
    <time dateTime={time} title={utc(time)}>
      {ago(time, now)}
    </time>
  );
}

/** A time in UTC, and how long ago it is. */
export function When({ time }: { time: string }) {
  return (
    <>
      <span className="numeric">{utc(time)}</span> <span className="quiet numeric">(<Age time={time} />)</span>
    </>
  );
}

/** Copies a text. */
export function Copy({ text, what }: { text: string; what: string }) {
  const [isCopied, setCopied] = useState(false);
  useEffect(() => {
    if (!isCopied) return;
    const timer = setTimeout(() => setCopied(false), 1_500);
    return () => clearTimeout(timer);
  }, [isCopied]);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      // pages over plain HTTP have no clipboard
      const area = document.createElement('textarea');
      area.value = text;
      document.body.append(area);
      area.select();
      document.execCommand('copy');
      area.remove();
    }
    setCopied(true);
  };
  return (
    <button type="button" className="copy" onClick={() => void copy()} aria-label={isCopied ? 'Copied' : `Copy ${what}`} title={`Copy ${what}`}>
      <svg viewBox="0 0 16 16" width="14" height="14" aria-hidden="true">
        {isCopied ? (
          <path d="M3 8.5 6.5 12 13 4.5" />
        ) : (
          <path d="M5.5 5.5v-3h8v8h-3M2.5 5.5h8v8h-8z" />
        )}
      </svg>
    </button>
  );
}

/**
 * A hash, an address or another long text in one line, with an ellipsis in its middle where it does not fit: the end
 * keeps its place and the beginning takes what is left.
 */
export function Hash({ text, href, what, copy = false, tail = 8 }: { text: string; href?: string; what: string; copy?: boolean; tail?: number }) {
  const body = (
    <>
      <span className="head">{text.slice(0, -tail)}</span>
      <span className="tail">{text.slice(-tail)}</span>
    </>
  );
  return (
    <span className="hash-line">
      {href ? <Link className="hash" href={href} title={text} aria-label={text}>{body}</Link> : <span className="hash" title={text}>{body}</span>}
      {copy && <Copy text={text} what={what} />}
    </span>
  );
}

/** A titled part of a page. */
export function Panel({ title, aside, children, className = '', id }: { title: ReactNode; aside?: ReactNode; children: ReactNode; className?: string; id?: string }) {
  const heading = useId();
  return (
    <section className={`panel ${className}`} aria-labelledby={heading} id={id}>
      <header>
        <h2 id={heading}>{title}</h2>
        {aside && <div className="aside">{aside}</div>}
      </header>
      {children}
    </section>
  );
}

/** Names and values, one pair a line, some with a note on what the figure means. Pairs without a value are left out. */
export function Facts({ facts }: { facts: [name: string, value: ReactNode, note?: string][] }) {
  return (
    <dl className="facts">
      {facts.filter(([, value]) => value !== null && value !== undefined && value !== false).map(([name, value, note]) => (
        <div key={name}>
          <dt>{name}{note && <span className="note">{note}</span>}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

/** The head of a page: what it shows, and the query behind it. */
export function Head({ kind, children, badges }: { kind: string; children?: ReactNode; badges?: ReactNode }) {
  return (
    <div className="page-head">
      <div className="page-title">
        <h1 tabIndex={-1}>{kind}</h1>
        {badges}
        <SeeQuery />
      </div>
      {children && <div className="page-subject">{children}</div>}
    </div>
  );
}

/** Opens the page's query in the playground, in the fragment of the URL: what is asked is not sent twice. */
function SeeQuery() {
  const query = useStore(shown);
  if (!query) return null;
  const fragment = new URLSearchParams({ query: query.query, variables: JSON.stringify(query.variables, null, 2) });
  return (
    <a className="see-query" href={`/playground#${fragment}`}>
      <span aria-hidden="true">{'{ }'}</span> See the query
    </a>
  );
}

export function Badge({ tone = 'plain', children }: { tone?: 'plain' | 'good' | 'warn' | 'bad'; children: ReactNode }) {
  return <span className={`badge ${tone}`}>{children}</span>;
}

const messagesOf = (error: unknown) => [...new Set(CombinedGraphQLErrors.is(error) ? error.errors.map(({ message }) => message) : [])];

/** What went wrong, and what happens next. */
export function Failure({ error }: { error: unknown }) {
  if (isForbidden(error)) return <SignIn messages={messagesOf(error)} />;
  if (isUnreachable(error)) {
    return (
      <div className="failure" role="status">
        <strong>The server does not answer.</strong> The page goes on by itself as soon as it does.
      </div>
    );
  }
  return (
    <div className="failure" role="alert">
      <strong>The server refused a part of this page.</strong>
      <ul>
        {messagesOf(error).map((message) => (
          <li key={message}>{message}</li>
        ))}
      </ul>
    </div>
  );
}

/** Asks for the token of a server that wants one. */
function SignIn({ messages }: { messages: string[] }) {
  const [token, setToken] = useState('');
  return (
    <form className="failure" onSubmit={(event) => { event.preventDefault(); if (token.trim()) signIn(token.trim()); }}>
      <strong>{messages.length > 0 ? 'The server refuses this page.' : 'This server wants a token.'}</strong>
      <ul>{messages.map((message) => <li key={message}>{message}</li>)}</ul>
      <div className="buttons">
        <label htmlFor="token">Token</label>
        <input id="token" type="password" value={token} onChange={(event) => setToken(event.target.value)} autoComplete="current-password" />
        <button type="submit" className="primary">Use it</button>
        <span className="quiet small">It stays in this tab until that is closed.</span>
      </div>
    </form>
  );
}

/** Lines where the page will be. */
export function Loading({ lines = 6 }: { lines?: number }) {
  return (
    <div className="loading" role="status">
      <span className="spoken">Loading</span>
      {Array.from({ length: lines }, (_, line) => (
        <span key={line} className="skeleton" aria-hidden="true" />
      ))}
    </div>
  );
}

export function Empty({ children }: { children: ReactNode }) {
  return <p className="empty">{children}</p>;
}

/** Reads the next page of a list: at a click, and keeps the focus where it is. */
export function More({ has, load, what, shown: number, total }: { has: boolean; load: () => Promise<unknown>; what: string; shown: number; total?: number | null }) {
  const [isLoading, setLoading] = useState(false);
  const [isRefused, setRefused] = useState(false);
  const isThere = useRef(true);
  useEffect(() => {
    isThere.current = true;
    return () => {
      isThere.current = false;
    };
  }, []);
  if (!has) return null;
  const more = () => {
    setLoading(true);
    setRefused(false);
    load()
      .catch(() => isThere.current && setRefused(true))
      .finally(() => isThere.current && setLoading(false));
  };
  return (
    <div className="more">
      <button type="button" onClick={more} disabled={isLoading}>
        {isLoading ? 'Loading…' : `More ${what}`}
      </button>
      <span className="quiet" role="status">
        {isRefused ? 'The server did not send them; try again.' : `${count(number)}${total != null ? ` of ${count(total)}` : ''}`}
      </span>
    </div>
  );
}

/** A choice of few, as radio buttons in a row. */
export function Choices({ name, options, value, choose }: { name: string; options: readonly (readonly [string, string])[]; value: string; choose: (value: string) => void }) {
  return (
    <fieldset className="choices">
      <legend className="spoken">{name}</legend>
      {options.map(([key, label]) => (
        <label key={key}>
          <input type="radio" name={name} value={key} checked={key === value} onChange={() => choose(key)} />
          <span>{label}</span>
        </label>
      ))}
    </fieldset>
  );
}

/** A figure above its name. */
export function Figure({ name, children }: { name: string; children: ReactNode }) {
  return <div className="figure"><span className="value">{children}</span><span className="quiet">{name}</span></div>;
}
