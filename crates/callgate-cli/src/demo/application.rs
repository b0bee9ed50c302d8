//! The application that the demo serves: a site with articles, users, a cache and a report.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use callgate::local::{Error, Response};
use callgate::{DefinitionError, Local, Mask, Method, Param, Safety};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// More than this cannot be kept; a demo that anybody may reach must not grow for ever.
const MAX_ARTICLES: usize = 10_000;
/// How long an article's body may be.
const MAX_BODY: usize = 100_000;

#[derive(Debug, Clone, Serialize)]
struct Article {
    id: i64,
    title: String,
    body: String,
    author: String,
}

/// The articles, while the process runs.
#[derive(Debug)]
struct Site {
    articles: Vec<Article>,
    next_id: i64,
}

type SharedSite = Arc<Mutex<Site>>;

fn open(site: &SharedSite) -> MutexGuard<'_, Site> {
    site.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The functions, with the methods that they are.
pub(crate) fn application() -> Result<Local, DefinitionError> {
    let site = Arc::new(Mutex::new(Site::with_samples()));
    let mut local = Local::default();
    add_types(&mut local)?;
    add_reading(&mut local, &site)?;
    add_writing(&mut local, &site)?;
    add_users(&mut local)?;
    add_system(&mut local)?;
    add_report(&mut local, &site)?;
    Ok(local)
}

#[derive(Deserialize)]
struct Nothing {}

#[derive(Deserialize)]
struct ById {
    id: i64,
}

fn add_types(local: &mut Local) -> Result<(), DefinitionError> {
    local.method(
        Method::new("content.types.list".parse()?)
            .title("List content types")
            .description(
                "Lists the types of content that the site has, each with its id and label.",
            )
            .returns("array{id: string, label: string}[]".parse()?)
            .safety(Safety::ReadOnly),
        async |_, _: Nothing| {
            let types = json!([
                {"id": "article", "label": "Article"},
                {"id": "page", "label": "Basic page"},
            ]);
            Ok::<_, Error>(types)
        },
    );
    Ok(())
}

fn add_reading(local: &mut Local, site: &SharedSite) -> Result<(), DefinitionError> {
    #[derive(Deserialize)]
    struct PageOf {
        limit: usize,
        offset: usize,
    }
    let shared = Arc::clone(site);
    local.method(
        Method::new("content.articles.list".parse()?)
            .title("List articles")
            .description(
                "Lists articles, oldest first, without their bodies. Returns `items`, each with \
                 id, title and author, and `total`, the number of articles in all. Ask for the \
                 next page with an `offset` higher by `limit`.",
            )
            .param(
                Param::new("limit", "int<1, 100>".parse()?)
                    .description("How many articles to return.")
                    .default(json!(10)),
            )
            .param(
                Param::new("offset", "int<0, max>".parse()?)
                    .description("How many articles to skip.")
                    .default(json!(0)),
            )
            .returns(
                "array{items: array{id: int, title: string, author: string}[], total: int}"
                    .parse()?,
            )
            .safety(Safety::ReadOnly)
            .requires("content", Mask::Read),
        move |_, page: PageOf| {
            let result = open(&shared).page(page.limit, page.offset);
            async { Ok::<_, Error>(result) }
        },
    );
    let shared = Arc::clone(site);
    local.method(
        Method::new("content.article.markdown".parse()?)
            .title("Article as Markdown")
            .description("Returns one article as Markdown text, with its title as the heading.")
            .param(Param::new("id", "int".parse()?).description("The article's id."))
            .returns("string".parse()?)
            .safety(Safety::ReadOnly)
            .requires("content", Mask::Read),
        move |_, ById { id }| {
            let result = open(&shared).find(id).map(|article| {
                format!("# {}\n\n{}\n\n*{}*\n", article.title, article.body, article.author)
            });
            async { result }
        },
    );
    Ok(())
}

fn add_writing(local: &mut Local, site: &SharedSite) -> Result<(), DefinitionError> {
    #[derive(Deserialize)]
    struct Draft {
        title: String,
        body: String,
    }
    let shared = Arc::clone(site);
    local.method(
        Method::new("content.article.create".parse()?)
            .title("Create article")
            .description("Creates an article and returns it with its new id.")
            .param(Param::new("title", "string".parse()?).description("The headline."))
            .param(Param::new("body", "string".parse()?).description("The text, as Markdown."))
            .returns("array{id: int, title: string, body: string, author: string}".parse()?)
            .safety(Safety::Destructive)
            .requires("content", Mask::Write),
        move |context, draft: Draft| {
            let result = open(&shared).create(draft.title, draft.body, context.caller.name());
            async { result }
        },
    );
    let shared = Arc::clone(site);
    local.method(
        Method::new("content.article.delete".parse()?)
            .title("Delete article")
            .description("Deletes an article for good. Returns true.")
            .param(Param::new("id", "int".parse()?).description("The article's id."))
            .returns("bool".parse()?)
            .safety(Safety::Destructive)
            .requires("content", Mask::Execute),
        move |_, ById { id }| {
            let result = open(&shared).delete(id);
            async { result }
        },
    );
    Ok(())
}

fn add_users(local: &mut Local) -> Result<(), DefinitionError> {
    #[derive(Deserialize)]
    struct GetUser {
        id_user: i64,
        include_details: bool,
    }
    local.method(
        Method::new("user.get".parse()?)
            .title("Get user")
            .description("Looks up a user of the site by number.")
            .param(Param::new("id_user", "int".parse()?).description("The user's number."))
            .param(
                Param::new("include_details", "bool".parse()?)
                    .description("Also return e-mail and roles.")
                    .default(json!(false)),
            )
            .safety(Safety::ReadOnly)
            .requires("user_management", Mask::Read),
        async |_, arguments: GetUser| {
            let (name, email, role) = match arguments.id_user {
                1 => ("Ada Lindqvist", "ada@example.com", "administrator"),
                2 => ("Ravi Menon", "ravi@example.com", "editor"),
                3 => ("Noor Haddad", "noor@example.com", "author"),
                other => return Err(Error::tool(format!("there is no user {other}"))),
            };
            let mut user = json!({"id": arguments.id_user, "name": name});
            if arguments.include_details
                && let Value::Object(user) = &mut user
            {
                user.insert("email".to_owned(), json!(email));
                user.insert("roles".to_owned(), json!([role]));
            }
            Ok(user)
        },
    );
    Ok(())
}

fn add_system(local: &mut Local) -> Result<(), DefinitionError> {
    local.method(
        Method::new("cache.rebuild".parse()?)
            .title("Rebuild cache")
            .description("Rebuilds the site's caches. Returns true when they are fresh.")
            .returns("bool".parse()?)
            .safety(Safety::Destructive)
            .requires("system", Mask::Execute),
        async |_, _: Nothing| Ok::<_, Error>(true),
    );
    Ok(())
}

/// The longest that the yearly report can be made to take.
const MAX_REPORT_SECONDS: u64 = 25;

fn add_report(local: &mut Local, site: &SharedSite) -> Result<(), DefinitionError> {
    #[derive(Deserialize)]
    struct Patience {
        seconds: u64,
    }
    local.method(
        Method::new("report.yearly".parse()?)
            .title("Yearly report")
            .description("Counts the whole year's visits, which takes a while.")
            .param(
                Param::new("seconds", "int<0, 25>".parse()?)
                    .description("How long it takes.")
                    .default(json!(5)),
            )
            .returns("array{visits: int}".parse()?)
            .safety(Safety::ReadOnly)
            .requires("content", Mask::Read),
        async |_, Patience { seconds }| {
            tokio::time::sleep(Duration::from_secs(seconds.min(MAX_REPORT_SECONDS))).await;
            Ok::<_, Error>(json!({"visits": 365 * 412}))
        },
    );
    let shared = Arc::clone(site);
    local.display_method(
        Method::new("report.projects".parse()?)
            .title("Projects report")
            .description("Shows the site's projects, and how many articles there are.")
            .safety(Safety::ReadOnly)
            .requires("content", Mask::Read),
        move |response: &mut Response, _, _: Nothing| {
            let articles = open(&shared).articles.len();
            Box::pin(async move {
                response.set("title", "Projects");
                response.set(
                    "projects",
                    json!([
                        {"name": "Website relaunch", "status": "active"},
                        {"name": "Newsletter", "status": "planned"},
                    ]),
                );
                response.set("articles", articles);
                // What a display method returns does not matter.
                Ok(true)
            })
        },
    );
    Ok(())
}

impl Site {
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
        let articles: Vec<Article> = (1..)
            .zip(samples)
            .map(|(id, (title, body, author))| Article {
                id,
                title: title.to_owned(),
                body: body.to_owned(),
                author: author.to_owned(),
            })
            .collect();
        let next_id = articles.last().map_or(1, |article| article.id + 1);
        Self { articles, next_id }
    }

    fn page(&self, limit: usize, offset: usize) -> Value {
        let items: Vec<Value> = self
            .articles
            .iter()
            .skip(offset)
            .take(limit)
            .map(|article| {
                json!({"id": article.id, "title": article.title, "author": article.author})
            })
            .collect();
        json!({"items": items, "total": self.articles.len()})
    }

    fn find(&self, id: i64) -> Result<&Article, Error> {
        let found = self.articles.iter().find(|article| article.id == id);
        found.ok_or_else(|| no_article(id))
    }

    fn create(&mut self, title: String, body: String, author: &str) -> Result<Article, Error> {
        if title.trim().is_empty() {
            return Err(Error::tool("an article needs a title"));
        }
        if title.len() + body.len() > MAX_BODY {
            return Err(Error::tool(format!("an article has at most {MAX_BODY} bytes")));
        }
        if self.articles.len() >= MAX_ARTICLES {
            return Err(Error::tool("the demo is full; delete an article first"));
        }
        let article = Article { id: self.next_id, title, body, author: author.to_owned() };
        self.next_id += 1;
        self.articles.push(article.clone());
        Ok(article)
    }

    fn delete(&mut self, id: i64) -> Result<bool, Error> {
        let at = self.articles.iter().position(|article| article.id == id);
        self.articles.remove(at.ok_or_else(|| no_article(id))?);
        Ok(true)
    }
}

fn no_article(id: i64) -> Error {
    Error::tool(format!("there is no article {id}"))
}
