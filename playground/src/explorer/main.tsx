// The explorer: pages for people over the API of this server.

import { ApolloProvider } from '@apollo/client/react';
import { createRoot } from 'react-dom/client';
import { App } from './app';
import { client } from './client';
import './theme';

const container = document.getElementById('explorer');
if (!container) throw new Error('the page has no place for the explorer');
createRoot(container).render(
  <ApolloProvider client={client}>
    <App />
  </ApolloProvider>,
);
