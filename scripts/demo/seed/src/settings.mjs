/** Where the pages of the demo are. */
export const PAGES = "/pages/";
