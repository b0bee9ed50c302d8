//! The sample application: a site with articles, users, a cache and a report.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use callgate::local::Local;
use callgate::model::InvalidMethod;
use callgate::plugin::Plugin as _;
use callgate::{Context, Error, Response, method, methods, plugin};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

/// Maximum number of articles. It is limited because anybody may reach a demo.
const MAX_ARTICLES: usize = 10_000;
/// Maximum length of an article, in bytes.
const MAX_BODY: usize = 100_000;
const MAX_REPORT_SECONDS: u64 = 25;

pub(crate) fn application() -> Result<Local, InvalidMethod> {
    let mut local = Local::default();
    let site = Arc::new(Site::with_samples());
    let functions = methods![content_types, get_user, rebuild_cache, yearly_report];
    for function in site.items().into_methods().into_iter().chain(functions) {
        local.add(function)?;
    }
    Ok(local)
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
struct Article {
    id: i64,
    title: String,
    body: String,
    author: String,
}

#[derive(Serialize, JsonSchema)]
struct ContentType {
    id: &'static str,
    label: &'static str,
}

/// Lists the types of content that the site has, each with its id and label.
#[method(id = "content.types.list", title = "List content types", read_only)]
fn content_types() -> Vec<ContentType> {
    vec![
        ContentType { id: "article", label: "Article" },
        ContentType { id: "page", label: "Basic page" },
    ]
}

#[derive(Serialize, JsonSchema)]
struct User {
    id: i64,
    name: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    email: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    roles: Option<Vec<&'static str>>,
}

/// Looks up a user of the site by number.
#[method(id = "user.get", title = "Get user", section("user_management", read), read_only)]
fn get_user(
    /// The user's number.
    id_user: i64,
    /// Also return e-mail and roles.
    #[default(false)]
    include_details: bool,
) -> Result<User, Error> {
    let (name, email, role) = match id_user {
        1 => ("Ada Lindqvist", "ada@example.com", "administrator"),
        2 => ("Ravi Menon", "ravi@example.com", "editor"),
        3 => ("Noor Haddad", "noor@example.com", "author"),
        other => return Err(Error::tool(format!("there is no user {other}"))),
    };
    let (email, roles) = include_details.then(|| (email, vec![role])).unzip();
    Ok(User { id: id_user, name, email, roles })
}

/// Rebuilds the site's caches. Returns true when they are fresh.
#[method(id = "cache.rebuild", title = "Rebuild cache", section("system", execute), destructive)]
fn rebuild_cache() -> bool {
    true
}

#[derive(Serialize, JsonSchema)]
struct YearlyReport {
    visits: u32,
}

/// Counts the whole year's visits, which takes a while.
#[method(id = "report.yearly", title = "Yearly report", section("content", read), read_only)]
async fn yearly_report(
    /// Duration of the report, in seconds.
    #[default(5)]
    #[schemars(range(min = 0, max = 25))]
    seconds: u64,
) -> YearlyReport {
    tokio::time::sleep(Duration::from_secs(seconds.min(MAX_REPORT_SECONDS))).await;
    YearlyReport { visits: 365 * 412 }
}

#[derive(Debug)]
struct Site(Mutex<Articles>);

#[derive(Debug)]
struct Articles {
    all: Vec<Article>,
    next_id: i64,
}

#[derive(Serialize, JsonSchema)]
struct Page {
    items: Vec<Listed>,
    total: usize,
}

#[derive(Serialize, JsonSchema)]
struct Listed {
    id: i64,
    title: String,
    author: String,
}

#[plugin::methods]
impl Site {
    /// Lists articles, oldest first, without their bodies. Returns `items`, each with id, title and
    /// author, and `total`, the number of all articles. To get the next page, add `limit` to
    /// `offset`.
    #[method(
        id = "content.articles.list",
        title = "List articles",
        section("content", read),
        read_only
    )]
    fn list(
        &self,
        /// How many articles to return.
        #[default(10)]
        #[schemars(range(min = 1, max = 100))]
        limit: usize,
        /// How many articles to skip.
        #[default(0)]
        offset: usize,
    ) -> Page {
        let articles = self.lock();
        let items = articles.all.iter().skip(offset).take(limit).map(|article| Listed {
            id: article.id,
            title: article.title.clone(),
            author: article.author.clone(),
        });
        Page { items: items.collect(), total: articles.all.len() }
    }

    /// Returns one article as Markdown text, with its title as the heading.
    #[method(
        id = "content.article.markdown",
        title = "Article as Markdown",
        section("content", read),
        read_only
    )]
    fn markdown(
        &self,
        /// The article's id.
        id: i64,
    ) -> Result<String, Error> {
        let articles = self.lock();
        let found = articles.all.iter().find(|article| article.id == id);
        let Article { title, body, author, .. } = found.ok_or_else(|| article_not_found(id))?;
        Ok(format!("# {title}\n\n{body}\n\n*{author}*\n"))
    }

    /// Creates an article and returns it with its new id.
    #[method(
        id = "content.article.create",
        title = "Create article",
        section("content", write),
        destructive
    )]
    fn create(
        &self,
        ctx: &Context,
        /// The headline.
        title: String,
        /// The text, as Markdown.
        body: String,
    ) -> Result<Article, Error> {
        if title.trim().is_empty() {
            return Err(Error::tool("an article needs a title"));
        }
        if title.len() + body.len() > MAX_BODY {
            return Err(Error::tool(format!("an article has at most {MAX_BODY} bytes")));
        }
        let mut articles = self.lock();
        if articles.all.len() >= MAX_ARTICLES {
            return Err(Error::tool("the demo is full; delete an article first"));
        }
        let author = ctx.caller.name().to_owned();
        let article = Article { id: articles.next_id, title, body, author };
        articles.next_id += 1;
        articles.all.push(article.clone());
        Ok(article)
    }

    /// Deletes an article for good. Returns true.
    #[method(
        id = "content.article.delete",
        title = "Delete article",
        section("content", execute),
        destructive
    )]
    fn delete(
        &self,
        /// The article's id.
        id: i64,
    ) -> Result<bool, Error> {
        let mut articles = self.lock();
        let index = articles.all.iter().position(|article| article.id == id);
        articles.all.remove(index.ok_or_else(|| article_not_found(id))?);
        Ok(true)
    }

    /// Shows the site's projects, and how many articles there are.
    #[method(
        id = "report.projects",
        title = "Projects report",
        section("content", read),
        read_only
    )]
    fn projects(&self, response: &mut Response) {
        response.set("title", "Projects");
        response.set(
            "projects",
            json!([
                {"name": "Website relaunch", "status": "active"},
                {"name": "Newsletter", "status": "planned"},
            ]),
        );
        response.set("articles", self.lock().all.len());
    }

    fn lock(&self) -> MutexGuard<'_, Articles> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with_samples() -> Self {
        let samples = [
            ("Welcome", "This site is served by Callgate's demo.", "ada"),
            ("How we bake bread", "Flour, water, salt and patience.", "ravi"),
            ("A walk along the coast", "Twelve kilometres of wind and light.", "noor"),
            ("Notes on naming", "One word for each thing, everywhere.", "ada"),
            ("The old lighthouse", "Built in 1874, still lit every night.", "noor"),
            ("Winter vegetables", "Leeks, kale, and what to do with them.", "ravi"),
            ("Learning to read maps", "Contours first, then the rest.", "noor"),
            ("Our new library", "Open from nine to six, closed on Mondays.", "ada"),
            ("Repairing a bicycle", "Start with the chain.", "ravi"),
            ("Stars in November", "Look east after nine.", "noor"),
            ("A short history of tea", "From leaf to cup in five stops.", "ravi"),
            ("Minutes of the meeting", "The roof will be mended in spring.", "ada"),
        ];
        let all: Vec<Article> = (1..)
            .zip(samples)
            .map(|(id, (title, body, author))| Article {
                id,
                title: title.to_owned(),
                body: body.to_owned(),
                author: author.to_owned(),
            })
            .collect();
        let next_id = all.last().map_or(1, |article| article.id + 1);
        Self(Mutex::new(Articles { all, next_id }))
    }
}

fn article_not_found(id: i64) -> Error {
    Error::tool(format!("there is no article {id}"))
}
