// The types that JSON values of the schema's scalars have in TypeScript.

/** What JSON has for each scalar. For one that is not here graphql-codegen fails. */
export const SCALARS = {
  BigInt: 'string',
  BlockHash: 'string',
  DateTime: 'string',
  Decimal: 'string',
  Hash256: 'string',
  Hex: 'string',
  Int53: 'number',
  Sats: 'number',
  SignedSats: 'number',
  Txid: 'string',
  UInt53: 'number',
  Wtxid: 'string',
};
