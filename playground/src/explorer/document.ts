// Operations as text, so that a page can show what it asks with its comments.

import { parse } from 'graphql';
import type { TypedDocumentNode } from '@apollo/client';

/** The operation in this text, typed by what graphql-codegen makes of it. */
export const document = <Data, Variables extends Record<string, unknown>>(text: string) =>
  parse(text) as TypedDocumentNode<Data, Variables>;

/** The text that an operation was parsed from. */
export const textOf = (operation: TypedDocumentNode<any, any>) => operation.loc?.source.body ?? '';
